"""The guard, in front of an application that lets everything through."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from fastapi import FastAPI, Request

from replicator.api.access import Role, Tokens
from replicator.api.guard import MAX_BODY, ROLE, Guard

TOKENS = Tokens(admin="admin", operate="operate", read="read")


@pytest.fixture
def app() -> FastAPI:
    """Answers each request with its body."""
    made = FastAPI()

    @made.api_route("/{path:path}", methods=["GET", "POST", "PUT", "DELETE"])
    async def echo(request: Request) -> str:
        return (await request.body()).decode()

    return made


async def ask(
    app: Any, method: str, path: str, headers: dict[str, str], *parts: bytes, late: bool = False
) -> tuple[int, dict[str, str], bytes]:
    """One request; with `late` the last part of its body never comes."""
    sent: list[dict[str, Any]] = []
    left = iter(parts or (b"",))
    count = len(parts or (b"",))

    async def receive() -> Any:
        nonlocal count
        count -= 1
        if count < 0 or (late and count == 0):
            await asyncio.sleep(60)
        return {"type": "http.request", "body": next(left), "more_body": count > 0}

    async def send(message: Any) -> None:
        sent.append(message)

    raw = [(key.encode(), value.encode("latin-1")) for key, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": raw}
    await app(scope, receive, send)
    answered = {key.decode(): value.decode() for key, value in sent[0]["headers"]}
    return sent[0]["status"], answered, b"".join(message.get("body", b"") for message in sent)


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("path", ["/connectors/r/pause\n", "/\x00", "/topics/a\x7f", "/a\u2028"])
async def test_no_path_is_read_in_two_ways(app: FastAPI, path: str) -> None:
    """Neither as another one by whoever finds the role, nor in the log."""
    guarded = Guard(app, tokens=TOKENS, host=None)
    status, _, body = await ask(guarded, "POST", path, {"authorization": "Bearer admin"})
    assert status == 400
    assert b"cannot be printed" in body


@pytest.mark.parametrize("host", ["a", "x/metrics?", "x/metrics#", "x/health/", "/metrics"])
@pytest.mark.parametrize("path", ["/connectors/list", "/metricsx", "/health/other", "/metrics/x", "//metrics", "/"])
async def test_no_host_header_opens_a_path(app: FastAPI, host: str, path: str) -> None:
    """Old frameworks make the path of a request from it."""
    guard = Guard(app, tokens=TOKENS, host=None)
    assert (await ask(guard, "GET", path, {"host": host}))[0] == 401
    for open_path in ("/metrics", "/health/live", "/health/ready"):
        assert (await ask(guard, "GET", open_path, {"host": host}))[0] == 200


@pytest.mark.parametrize(
    ("token", "method", "path", "status"),
    [
        ("read", "GET", "/connectors/list", 200),
        ("read", "PUT", "/connectors/route/stop", 403),
        ("read", "DELETE", "/connectors/route", 403),
        ("operate", "GET", "/status", 200),
        ("operate", "PUT", "/connectors/route/stop", 200),
        ("operate", "POST", "/connectors/route/failover", 200),
        ("operate", "DELETE", "/connectors/route", 403),
        ("operate", "POST", "/connectors/new", 403),
        ("admin", "DELETE", "/connectors/route", 200),
        ("admin", "PUT", "/log/level", 200),
        ("other", "GET", "/status", 401),
    ],
)
async def test_each_role_may_do_its_own(app: FastAPI, token: str, method: str, path: str, status: int) -> None:
    guard = Guard(app, tokens=TOKENS, host=None)
    answered, headers, body = await ask(guard, method, path, {"authorization": f"Bearer {token}"})
    assert answered == status, body
    assert (headers.get("connection") == "close") == (status != 200)
    if status == 403:
        assert f"the token is for {token} only".encode() in body


async def test_without_a_token_only_this_machine_is_answered(app: FastAPI) -> None:
    """Under its own name, and no page of another site: it could be led here by a name of its own."""
    guard = Guard(app, tokens=Tokens(), host="127.0.0.1")
    for path in ("/status", "/metrics"):
        assert (await ask(guard, "GET", path, {"host": "localhost:8082"}))[0] == 200
        assert (await ask(guard, "GET", path, {"host": "rebound.example:8082"}))[0] == 403
    page = {"host": "localhost:8082", "origin": "http://evil.example"}
    for method in ("GET", "POST"):
        assert (await ask(guard, method, "/connectors/route/restart", page))[0] == 403
    own = {"host": "localhost:8082", "origin": "http://localhost:8082"}
    assert (await ask(guard, "POST", "/connectors/route/restart", own))[0] == 200


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("Application/JSON", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),  # but for the page's own forms
        ("text/plain; application/json", 415),
        ("", 415),
    ],
)
async def test_a_body_must_be_said_to_be_json(app: FastAPI, kind: str, status: int) -> None:
    """Those that a page may send without asking are not."""
    guard = Guard(app, tokens=Tokens(), host=None)
    headers = {"content-length": "2"} | ({"content-type": kind} if kind else {})
    answered, _, body = await ask(guard, "POST", "/connectors/x", headers, b"{}")
    assert answered == status
    assert (body == b'"{}"') == (status == 200)


async def test_a_body_that_does_not_come_ends_the_connection(app: FastAPI) -> None:
    guard = Guard(app, tokens=Tokens(), host=None, body_seconds=0.05)
    headers = {"content-length": "4", **JSON}
    assert (await ask(guard, "POST", "/connectors/x", headers, b"{}", b"  "))[2] == b'"{}  "'
    status, answered, _ = await ask(guard, "POST", "/connectors/x", headers, b"{}", b"  ", late=True)
    assert (status, answered["connection"]) == (408, "close")


@pytest.mark.parametrize(
    "headers",
    [
        {"content-length": str(MAX_BODY + 1)},
        {"content-length": "9" * 5000},
        {"content-length": "+5"},
        {"content-length": "-1"},
        {"content-length": "x"},
        {"transfer-encoding": "chunked"},
    ],
)
async def test_a_body_without_an_end_is_refused(app: FastAPI, headers: dict[str, str]) -> None:
    guard = Guard(app, tokens=Tokens(), host=None)
    assert (await ask(guard, "POST", "/connectors/x", {**headers, **JSON}))[0] == 413


async def test_nothing_but_http_is_served(app: FastAPI) -> None:
    guard = Guard(app, tokens=Tokens(), host=None)

    async def never(*_: object) -> Any:
        pytest.fail("asked")

    await guard({"type": "websocket"}, never, never)


def basic(token: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"anybody:{token}".encode()).decode()}


@pytest.mark.parametrize(
    ("path", "status", "challenge"),
    [("/", 200, "Basic"), ("/page/topics", 200, "Basic"), ("/events", 200, "Basic"), ("/status", 401, "Bearer")],
)
async def test_a_browser_gives_the_token_as_a_password_to_the_page_alone(
    app: FastAPI, path: str, status: int, challenge: str
) -> None:
    """REST takes none: a browser would send it along with what another site makes it ask for."""
    guard = Guard(app, tokens=TOKENS, host=None)
    assert (await ask(guard, "GET", path, basic("read")))[0] == status
    assert (await ask(guard, "GET", path, {"authorization": "Bearer read"}))[0] == 200
    refused, headers, _ = await ask(guard, "GET", path, basic("wrong"))
    assert (refused, headers["www-authenticate"].split()[0]) == (401, challenge)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"origin": "https://ours:8082"}, 200),
        ({"origin": "https://ours:8082", "sec-fetch-site": "same-origin"}, 200),
        ({"origin": "null"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "none"}, 403),
        ({}, 403),
    ],
)
async def test_a_form_says_that_it_is_one_of_the_page(app: FastAPI, headers: dict[str, str], status: int) -> None:
    guard = Guard(app, tokens=TOKENS, host=None)
    given = {"host": "ours:8082", **basic("operate"), **headers}
    assert (await ask(guard, "POST", "/page/connectors/route/pause", given))[0] == status


async def test_a_handler_knows_the_role_of_who_asks() -> None:
    found: list[Any] = []

    async def note(scope: Any, _receive: Any, _send: Any) -> None:
        found.append(scope[ROLE])

    for tokens, headers in ((TOKENS, basic("operate")), (TOKENS, {}), (Tokens(), {})):
        scope = {"type": "http", "method": "GET", "path": "/metrics", "query_string": b""}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await Guard(note, tokens=tokens, host=None)({**scope, "headers": raw}, _nothing, _nothing)
    assert found == [None, None, Role.ADMIN], "the metrics take no password"


async def _nothing(*_: object) -> Any:
    return {}
