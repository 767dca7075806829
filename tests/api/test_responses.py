"""Errors of REST are as the OpenAPI document says, whoever gives them: the guard, FastAPI, or a handler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import ValidationError

from replicator.api.access import Tokens
from replicator.api.app import make_app
from replicator.api.guard import MAX_BODY, Guard
from replicator.group.unowned_tasks import UnownedTasks
from replicator.state.connector_configs import Connectors
from replicator.state.store import Store
from replicator.worker.worker import Worker
from tests.support.answers import check_answer
from tools.openapi import document

_HANDED: dict[str, str] = {"authorization": "Bearer secret"}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Guard]:
    """That of a worker without a cluster, which has no connector and asks for a token."""

    async def no_metrics() -> bytes:
        return b""

    async def published() -> None: ...

    store = Store(tmp_path)
    worker = SimpleNamespace(
        connectors=Connectors(store),
        queues=[],
        routes=SimpleNamespace(states=[], problems={}, get=lambda _: None),
        coordinator=SimpleNamespace(changing_hands=False),
        group=SimpleNamespace(waiting_for="", is_split=False, inbox=SimpleNamespace(hears_other_secret=False)),
        standby=None,
        others={},
        settings=SimpleNamespace(session_timeout=5.0, metadata_refresh_interval=5.0),
        unowned=UnownedTasks(),
        may_send=lambda: False,
        changed=published,
    )
    made = make_app(cast("Worker", worker), metrics=no_metrics, stopping=lambda: False)
    yield Guard(made, tokens=Tokens(admin="secret"), host=None)
    store.close()


async def _ask(
    app: Guard, method: str, path: str, body: bytes = b"", headers: dict[str, str] = _HANDED
) -> tuple[int, bytes]:
    path, _, query = path.partition("?")
    sent: list[dict[str, Any]] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        sent.append(message)

    given = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(key.encode(), value.encode()) for key, value in given.items()],
    }
    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


@pytest.mark.parametrize(
    ("status", "method", "path", "body"),
    [
        (400, "PUT", "/log/level", b'{"level": "loud"}'),
        (400, "POST", "/connectors/new", b"no JSON"),
        (400, "POST", "/connectors/new", b'{"topics": "(", "nonsense": 1}'),
        (400, "PUT", "/connectors/new", b'{"rate_messages": -1}'),
        (400, "GET", "/connectors/none/where?topic=orders&queue=x", b""),
        (404, "GET", "/connectors/none", b""),
        (404, "PUT", "/connectors/none/stop", b""),
        (404, "GET", "/connectors/none/plan", b""),
        (404, "POST", "/connectors/none/failover", b"{}"),
        (404, "GET", "/plugin/config?name=none", b""),
        (404, "GET", "/nowhere", b""),
        (405, "DELETE", "/metrics", b""),
        (503, "GET", "/health/ready", b""),
    ],
)
async def test_an_error_is_as_the_document_says(
    app: Guard, status: int, method: str, path: str, body: bytes
) -> None:
    answered, raw = await _ask(app, method, path, body)
    assert answered == status, raw
    check_answer(method, path, raw, answered)


async def test_the_guard_answers_as_the_document_says(app: Guard) -> None:
    """Before any handler: at a path that exists and at one that does not."""
    for path in ("/connectors/list", "/nowhere"):
        answered, raw = await _ask(app, "GET", path, headers={})
        assert answered == 401
        check_answer("GET", path, raw, 401)
    large = {**_HANDED, "content-length": str(MAX_BODY + 1)}
    answered, raw = await _ask(app, "POST", "/connectors/new", headers=large)
    assert answered == 413
    check_answer("POST", "/connectors/new", raw, 413)


def test_an_error_that_is_not_as_promised_is_found() -> None:
    """One without its hint, and a status that the path does not have."""
    refused = {"status": 404, "body": {"errors": ["there is no connector 'none'"], "hint": ""}}
    check_answer("GET", "/connectors/none", json.dumps(refused).encode(), 404)
    bare = {"status": 404, "body": {"errors": []}}
    with pytest.raises(ValidationError):
        check_answer("GET", "/connectors/none", json.dumps(bare).encode(), 404)
    with pytest.raises(LookupError):
        check_answer("GET", "/connectors/none", json.dumps(refused | {"status": 409}).encode(), 409)


def test_every_path_names_its_errors() -> None:
    """401 wherever a token is required, and never FastAPI's own 422, which becomes 400."""
    for path, operations in document()["paths"].items():
        for operation in operations.values():
            codes = operation["responses"].keys()
            assert "default" in codes
            assert "422" not in codes
            assert ("401" in codes) == (not path.startswith(("/metrics", "/health/"))), path
