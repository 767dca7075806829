"""Errors of all kinds come in the envelope."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from fastapi import FastAPI

from replicator.api.envelope import install, status_of
from replicator.connector.sync.ledger import BeingApplied


def test_what_is_being_done_is_a_conflict() -> None:
    assert status_of(BeingApplied("the plan is being applied already")) == 409


async def test_an_error_that_nobody_expects() -> None:
    """It is told, and the server hears of it, too."""
    app = FastAPI()
    install(app)

    @app.get("/bug")
    async def bug() -> None:
        raise OSError(28, "No space left on device")

    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/bug", "headers": [], "query_string": b""}
    heard = False
    with contextlib.suppress(OSError):
        await app(scope, receive, send)
        heard = True
    assert not heard
    assert sent[0]["status"] == 500
    page = json.loads(sent[1]["body"])
    assert page["status"] == 500
    assert page["body"]["errors"] == ["OSError: [Errno 28] No space left on device"]
