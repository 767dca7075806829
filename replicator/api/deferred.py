"""An HTTP application that is made when it is first asked, so that a worker begins to copy sooner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

__all__ = ["Application", "Deferred"]

#: As ASGI has it: called with the connection's scope, receive and send.
Application = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]


class Deferred:
    """The application that `make` gives, which is called once, in a thread, by the first request.

    Whatever `make` raises goes to the request that called it; the next one calls it again.
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
