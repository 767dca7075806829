"""RocketMQ Connect's envelope: `{"status": 200, "body": …}`, with the same HTTP status; for errors too."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from replicator.admin.changes import Rebalancing
from replicator.admin.dead_letter_resend import BeingSent
from replicator.admin.failover_turn import NotNow
from replicator.connector.sync.ledger import BeingApplied
from replicator.errors import ClientError, ConfigError, ReplicatorError
from replicator.settings.mistakes import way_out
from replicator.state.connector_configs import Exists, Unknown

__all__ = ["NotDone", "NotFinished", "answer", "install", "status_of"]


class NotDone(ReplicatorError):
    """The worker that was asked did not do it in time, and will not do it later."""


class NotFinished(ReplicatorError):
    """What was asked for was begun, and had not ended in time."""


#: The first match decides.
_STATUS: tuple[tuple[type[ReplicatorError], int], ...] = (
    (Unknown, 404),
    (Exists, 409),
    (Rebalancing, 409),
    (BeingSent, 409),
    (BeingApplied, 409),
    (NotNow, 409),
    (NotDone, 503),
    (NotFinished, 504),
    (ConfigError, 400),
    (ClientError, 503),
    (ReplicatorError, 500),
)


def answer(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> JSONResponse:
    """`body` in the envelope."""
    return JSONResponse({"status": status, "body": body}, status_code=status, headers=headers)


def _refusal(status: int, message: str, hint: str = "", headers: dict[str, str] | None = None) -> JSONResponse:
    return answer({"errors": message.splitlines(), "hint": hint}, status, headers)


def status_of(error: ReplicatorError) -> int:
    """The HTTP status that says what kind of error it is."""
    return next(status for kind, status in _STATUS if isinstance(error, kind))


async def _ours(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ReplicatorError)  # noqa: S101 - registered for it
    status = status_of(error)
    headers = {"Retry-After": "1"} if status in (409, 503) and not isinstance(error, Exists | NotNow) else None
    return _refusal(status, error.message, error.hint, headers)


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    headers = dict(error.headers or {})
    if error.status_code == 405:
        return _refusal(
            405, f"{request.url.path} has no method {request.method}", f"use {headers.get('Allow')}", headers
        )
    return _refusal(error.status_code, str(error.detail), headers=headers)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for it
    lines = [f"{'.'.join(map(str, problem['loc'][1:]))}: {way_out(problem)}" for problem in error.errors()]
    return _refusal(400, "\n".join(lines), "GET /openapi.json says what is expected")


async def _bug(_: Request, error: Exception) -> JSONResponse:
    """An unexpected error; the server logs it with its traceback."""
    return _refusal(
        500, f"{type(error).__name__}: {error}", "this is a bug in the replicator: see the worker's log"
    )


def install(app: FastAPI) -> None:
    """Puts errors of all kinds into the envelope."""
    app.add_exception_handler(ReplicatorError, _ours)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _bug)
