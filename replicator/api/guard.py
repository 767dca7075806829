"""Checks that a request must pass before any handler sees it: its size, and the token."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response

from replicator.api.envelope import answer

__all__ = ["MAX_BODY", "install_guard"]

#: Bytes. A connector's configuration is a few kilobytes.
MAX_BODY = 1024 * 1024

#: Paths that need no token: Prometheus and orchestrators have none.
_OPEN = ("/metrics", "/health/")


def install_guard(app: FastAPI, *, token: str | None) -> None:
    """Refuses bodies over `MAX_BODY` (413), and requests without `token` where one is set (401)."""
    digest = hashlib.sha256(token.encode()).digest() if token else None

    @app.middleware("http")
    async def guard(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        length = request.headers.get("content-length")
        if "transfer-encoding" in request.headers or (length and int(length) > MAX_BODY):
            return answer(
                {"errors": [f"the body must be at most {MAX_BODY} bytes"], "hint": "send it with Content-Length"},
                413,
            )
        if digest is not None and not request.url.path.startswith(_OPEN):
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            offered = hashlib.sha256(given.strip().encode()).digest()
            if scheme.lower() != "bearer" or not hmac.compare_digest(offered, digest):
                hint = "send the header Authorization: Bearer TOKEN"
                return answer(
                    {"errors": ["the token is missing or wrong"], "hint": hint}, 401, {"WWW-Authenticate": "Bearer"}
                )
        return await go_on(request)
