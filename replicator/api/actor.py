"""Who requested a change: log lines written for a request name its peer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response
from structlog.contextvars import bound_contextvars

__all__ = ["install_actor"]

_READING = ("GET", "HEAD", "OPTIONS")


def install_actor(app: FastAPI) -> None:
    """Adds `actor`, the address of the sender, to the log lines of requests that change something."""

    @app.middleware("http")
    async def name_actor(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        if request.method in _READING:
            return await go_on(request)
        peer = "unknown" if request.client is None else request.client.host
        with bound_contextvars(actor=f"REST {peer}"):
            return await go_on(request)
