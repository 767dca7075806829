"""An HTTP application that is built at its first request, so that a worker starts to copy sooner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

__all__ = ["Application", "Deferred"]

#: An ASGI application: called with the connection's scope, receive and send.
Application = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]


class Deferred:
    """The application that `make` returns; the first request calls `make` once, in a thread.

    If `make` raises, the request that called it gets the error, and the next request calls it again.
    """

    def __init__(self, make: Callable[[], Application]) -> None:
        self._make = make
        self._made: Application | None = None
        self._making = asyncio.Lock()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        async with self._making:
            if self._made is None:
                self._made = await asyncio.to_thread(self._make)
        await self._made(scope, receive, send)
