"""A client for a worker's REST, for the command line."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode, urlsplit

import typer

from replicator.errors import ConfigError, ReplicatorError, StartupError
from replicator.exit_codes import ExitCode
from replicator.protocol.properties import number
from replicator.settings.rest import refuse_unfit_token
from replicator.settings.secret_file import read_secret
from replicator.settings.shown import quoted

__all__ = ["HERE", "Feed", "NotFound", "Refused", "Rest", "Unanswered", "Url", "path"]

#: `--url`, and the default address of a worker on this machine.
Url = Annotated[
    str, typer.Option("--url", envvar="REPLICATOR_URL", help="REST address of any worker of the group.")
]
HERE: Final = "http://127.0.0.1:8082"

#: Seconds to wait for an answer: a worker that asks a broker for it gives up after 13, 3 of them to connect.
_TIMEOUT: Final = 15.0
_TLS_FILES: Final = ("ca_file", "cert_file", "key_file")
#: Where a URL names none; given always, or what is behind the last colon of an IPv6 address would be taken for it.
_PORTS: Final = {"http": http.client.HTTP_PORT, "https": http.client.HTTPS_PORT}
_HOST: Final = re.compile(r"[^\x00-\x20\x7f]+")
#: Seconds for which a change is retried during a rebalance.
_PATIENCE: Final = 15.0


class Refused(ReplicatorError):
    """The worker did not carry out the request."""

    exit_code = ExitCode.REFUSED


class Unanswered(ReplicatorError):
    """The worker has not said in time what became of the request: it may still be at work on it."""

    exit_code = ExitCode.UNANSWERED


class Feed:
    """An answer that goes on, line by line, until somebody ends it."""

    def __init__(self, sock: socket.socket, response: http.client.HTTPResponse) -> None:
        self._socket = sock
        self._response = response

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()
        self._socket.close()

    @property
    def lines(self) -> Iterator[bytes]:
        """What comes; it is over when the worker, the connection or `end` ends it."""
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            yield from self._response

    def end(self) -> None:
        """Ends `lines`, in whatever thread they are read."""
        with contextlib.suppress(OSError):  # it has ended already
            self._socket.shutdown(socket.SHUT_RDWR)


class NotFound(Refused):
    """The worker has nothing with that name."""


#: By the status of an answer; with any other, the request was refused.
_KINDS: Final[Mapping[int, type[ReplicatorError]]] = {
    HTTPStatus.NOT_FOUND: NotFound,
    HTTPStatus.GATEWAY_TIMEOUT: Unanswered,
}


def path(*parts: str) -> str:
    """A path of `parts`, with their special characters escaped."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def _tls() -> ssl.SSLContext:
    """A context with the CA and the client certificate that the environment names for `rest.tls`."""
    given = {name: os.environ.get(f"REPLICATOR_REST__TLS__{name.upper()}") for name in _TLS_FILES}
    try:
        context = ssl.create_default_context(cafile=given["ca_file"])
        if given["cert_file"] is not None:
            context.load_cert_chain(given["cert_file"], given["key_file"])
    except OSError as error:
        raise ConfigError(f"rest.tls: {error}", hint="name PEM files that can be read") from None
    return context


def _token() -> str:
    """The token of the highest role that the environment has one for, as settings of a worker; empty if of none."""
    for role in ("TOKEN", "OPERATE_TOKEN", "READ_TOKEN"):
        name = f"REPLICATOR_REST__{role}"
        if file := os.environ.get(f"{name}_FILE"):
            name, token = f"{name}_FILE", read_secret(f"{name}_FILE", Path(file))
        else:
            token = os.environ.get(name, "")
        if token:
            refuse_unfit_token(name, token)
            return token
    return ""


class Rest:
    """Requests to `url`, with the token and the TLS files that REPLICATOR_REST__… names in the environment.

    Args:
        timeout: seconds to wait for an answer.

    Raises:
        ConfigError: `url` is not a URL, or a named file or the token cannot be used.
    """

    def __init__(self, url: str, *, timeout: float = _TIMEOUT) -> None:
        self._timeout = timeout
        try:
            parts = urlsplit(url if "//" in url else f"http://{url}")
            usual = _PORTS[parts.scheme]
            host, port = parts.hostname or "", usual if parts.port is None else parts.port
            right = _HOST.fullmatch(host) is not None
        except (ValueError, KeyError):
            right = False
        if not right:
            raise ConfigError(f"--url = {quoted(url)} is not a URL", hint="give http://host:port, 8082 by default")
        self.url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"  # as errors show it
        # Not urllib: it would use a proxy from the environment.
        self._host, self._port = host, port
        self._tls = _tls() if parts.scheme == "https" else None
        self._token = _token()

    def _connection(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._tls)

    def follow(self, where: str) -> Feed:
        """A page that goes on.

        Raises:
            Refused: there is none to be had.
            StartupError: no worker answers there.
        """
        connection = self._connection()
        try:
            connection.request("GET", where, None, self._headers())
            sock = connection.sock
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._nobody(error) from None
        if response.status != HTTPStatus.OK:
            connection.close()
            raise Refused(f"{self.url} gives no {where}: {response.status}")
        return Feed(sock, response)

    def get(self, where: str, **query: object) -> Any:
        """The contents of a page."""
        given = {name: value for name, value in query.items() if value is not None}
        return self.ask("GET", f"{where}?{urlencode(given)}" if given else where)

    def ask(self, method: str, where: str, body: Any = None) -> Any:
        """Sends a request and returns the body in the answer's envelope.

        Raises:
            Refused: the request failed; the error has the reason and a hint.
            Unanswered: it is not known what became of it.
            StartupError: no worker answers there.
        """
        deadline = time.monotonic() + _PATIENCE
        while True:
            status, headers, found = self._once(method, where, body)
            if status < 400:
                return found
            if status != 409 or "Retry-After" not in headers or time.monotonic() > deadline:
                break
            # A proxy may write a date instead of seconds.
            seconds = number(headers["Retry-After"])
            time.sleep(min(1 if seconds is None else seconds, max(0.0, deadline - time.monotonic())))
        known = found if isinstance(found, dict) else {"errors": [str(found)], "hint": ""}
        raise _KINDS.get(status, Refused)("\n".join(known.get("errors", [])), hint=str(known.get("hint", "")))

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def _nobody(self, error: Exception) -> StartupError:
        return StartupError(
            f"no worker answers at {self.url} ({error})",
            hint="give a worker's address with --url or REPLICATOR_URL; a worker logs it at startup",
        )

    def _once(self, method: str, where: str, body: Any) -> tuple[int, Any, Any]:
        connection = self._connection()
        connected, status = False, 0
        try:
            connection.connect()
            connected = True
            connection.request(method, where, None if body is None else json.dumps(body), self._headers())
            response = connection.getresponse()
            status = response.status
            page = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            # A proxy between says 504 in a page of its own.
            if connected and (isinstance(error, TimeoutError) or status == HTTPStatus.GATEWAY_TIMEOUT):
                raise Unanswered(
                    f"{self.url} has not answered {method} {where} within {self._timeout:g} s",
                    hint="the request may still be running: check the worker's log before you retry",
                ) from None
            raise self._nobody(error) from None
        finally:
            connection.close()
        return (
            status,
            response.headers,
            page["body"] if isinstance(page, dict) and "body" in page else page,
        )
