"""Who asks for a change: whatever is logged on behalf of a request names its peer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response
from structlog.contextvars import bound_contextvars

__all__ = ["install_actor"]

_READING = ("GET", "HEAD", "OPTIONS")


def install_actor(app: FastAPI) -> None:
    """Log lines of requests that change something have `actor`, the address of whoever has sent it."""

    @app.middleware("http")
    async def name_actor(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        if request.method in _READING:
            return await go_on(request)
        peer = "unknown" if request.client is None else request.client.host
        with bound_contextvars(actor=f"REST {peer}"):
            return await go_on(request)
