"""What a failover is at, for who waits for it: each step as it begins, and again while it lasts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from replicator.aio.clock import now
from replicator.observe.logging import get_logger

__all__ = ["Steps"]

#: Seconds of silence after which it is said that a step goes on, and seconds between two checks.
_SILENCE: Final = 3.0
_CHECK: Final = 0.5

log = get_logger(__name__)


class Steps:
    """Logs the steps of one failover; a dry run has none."""

    def __init__(self, connector: str, *, dry_run: bool = False) -> None:
        self._connector = connector
        self._dry_run = dry_run
        self._step = ""
        self._began = self._said = now()

    def begin(self, step: str, **details: object) -> None:
        """Says what comes next; a step that is begun again has news."""
        if self._dry_run:
            return
        log.info(step, connector=self._connector, **details)
        if step != self._step:
            self._step, self._began = step, now()
        self._said = now()

    def hands_over(self, kind: str) -> None:
        """The turn of offsets, topics, or another kind of metadata has come."""
        self.begin("failover hands over", kind=kind)

    @asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """Within it a step that takes long is named every few seconds: brokers that are away cost time-outs."""
        reminding = asyncio.create_task(self._remind(), name="failover steps")
        try:
            yield
        finally:
            reminding.cancel()
            with suppress(asyncio.CancelledError):
                await reminding

    async def _remind(self) -> None:
        while True:
            await asyncio.sleep(_CHECK)
            if self._step and now() - self._said >= _SILENCE:
                self._said = now()
                seconds = round(self._said - self._began)
                log.info("failover goes on", connector=self._connector, step=self._step, seconds=seconds)
