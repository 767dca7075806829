"""Who requested a change: log lines written for a request name its peer, and the role of the token."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response
from structlog.contextvars import bound_contextvars

from replicator.api.access import READING, Role
from replicator.api.guard import ROLE

__all__ = ["install_actor"]


def install_actor(app: FastAPI) -> None:
    """Adds `actor` to the log lines of requests that change something."""

    @app.middleware("http")
    async def name_actor(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        if request.method in READING:
            return await go_on(request)
        peer = "unknown" if request.client is None else request.client.host
        role: Role = request.scope[ROLE]
        with bound_contextvars(actor=f"REST {peer} ({role.name.lower()})"):
            return await go_on(request)
