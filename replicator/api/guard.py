"""Checks that a request must pass before any handler sees it: where it comes from, its token, and its body."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers

from replicator.api.access import (
    OPEN,
    READING,
    Role,
    Tokens,
    foreign_form,
    foreign_host,
    foreign_origin,
    is_page,
    required,
    takes_password,
)
from replicator.api.envelope import answer

__all__ = ["MAX_BODY", "ROLE", "Guard"]

#: Where the scope of a request has the role of who sends it.
ROLE: Final = "replicator.role"

#: Bytes. A connector's configuration is a few kilobytes.
MAX_BODY: Final = 1024 * 1024
#: What browsers send forms as.
_FORM: Final = "application/x-www-form-urlencoded"
#: Seconds in which a body must have come.
_BODY_SECONDS: Final = 10.0

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def _refusal(status: int, error: str, hint: str, **headers: str) -> JSONResponse:
    """An answer after which the connection ends if a body is left in it."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return answer({"errors": [error], "hint": hint}, status, named)


class Guard:
    """Lets through what may pass; the path is the one that handlers are chosen by.

    Args:
        tokens: those that requests must carry; none where there are none.
        host: the address that is served, if only loopback may ask; None where tokens or certificates are asked for.
    """

    def __init__(self, app: App, *, tokens: Tokens, host: str | None, body_seconds: float = _BODY_SECONDS) -> None:
        self._app = app
        self._tokens = tokens
        self._host = host
        self._body_seconds = body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # nothing else is served
        headers, path, method = Headers(scope=scope), str(scope["path"]), str(scope["method"])
        scope[ROLE] = self._role(path, headers)
        refusal = (
            self._where_from(method, path, headers)
            or self._who(method, path, scope[ROLE])
            or self._what(path, headers)
        )
        if refusal is None and headers.get("content-length", "0") != "0":
            body = await self._body(receive)
            if body is None:
                refusal = _refusal(
                    *(408, f"the body did not come within {self._body_seconds:g} seconds", "send it at once"),
                    connection="close",
                )
            else:
                receive = _again(body, receive)
        await (self._app if refusal is None else refusal)(scope, receive, send)

    def _where_from(self, method: str, path: str, headers: Headers) -> JSONResponse | None:
        if not path.isprintable():  # whoever chooses the handler may read it otherwise than whoever finds the role
            return _refusal(
                400, "the path has characters that cannot be printed", "send it without", connection="close"
            )
        host = headers.get("host", "")
        if self._host is not None and foreign_host(host, self._host):
            return _refusal(
                *(403, f"Host: {host[:100]} is not a name of this machine", "use localhost, or set a token"),
                connection="close",
            )
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        form = is_page(path) and method not in READING
        if foreign_origin(method, host, origin, site) or (form and foreign_form(origin, site)):
            return _refusal(
                *(403, "a web page of another site sent this request", "send it from a program, not from a page"),
                connection="close",
            )
        return None

    def _role(self, path: str, headers: Headers) -> Role | None:
        """That of who asks; None if the token is missing or wrong. Without tokens everybody may do all."""
        if not self._tokens:
            return Role.ADMIN
        return self._tokens.role_of(headers.get("authorization", ""), password=takes_password(path))

    def _who(self, method: str, path: str, role: Role | None) -> JSONResponse | None:
        if not self._tokens or path in OPEN:
            return None
        needed = required(method, path)
        if role is None:
            password = takes_password(path)
            hint = "send the header Authorization: Bearer TOKEN"
            if password:
                hint = "give it as the password, with any user name"
            return _refusal(
                *(401, "the token is missing or wrong", hint),
                connection="close",
                WWW_Authenticate='Basic realm="replicator", charset="UTF-8"' if password else "Bearer",
            )
        if role < needed:
            names = " or ".join(each.name.lower() for each in Role if each >= needed)
            return _refusal(
                *(403, f"the token is for {role.name.lower()} only", f"this needs a token for {names}"),
                connection="close",
            )
        return None

    def _what(self, path: str, headers: Headers) -> JSONResponse | None:
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not length.isdecimal() or int(length[:20]) > MAX_BODY:
            hint = "send it with Content-Length"
            return _refusal(413, f"the body must be at most {MAX_BODY} bytes", hint, connection="close")
        name, kind = ("a form", _FORM) if is_page(path) else ("JSON", "application/json")
        if int(length) and headers.get("content-type", "").partition(";")[0].strip().lower() != kind:
            hint = f"send it with the header Content-Type: {kind}"
            return _refusal(415, f"the body is not said to be {name}", hint, connection="close")
        return None

    async def _body(self, receive: Receive) -> bytes | None:
        """The whole body; None if it did not come in time, or the sender has gone."""
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(self._body_seconds):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None
                    parts.append(message.get("body", b""))
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            return None


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives a body that was read, and then what comes after it."""
    given = False

    async def replay() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
