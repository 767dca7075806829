"""A worker whose source was away when it started: it shows what the group knows, and lets a failover be made.

It holds no lease, so it copies nothing. When the source answers, it ends, and a worker is built as at any start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from replicator.aio.schedule import Schedule
from replicator.client.discovery import Discovery
from replicator.errors import ReplicatorError
from replicator.group.membership import MemberState
from replicator.group.mirror import Mirror
from replicator.observe.logging import get_logger
from replicator.worker.agenda import Agenda
from replicator.worker.heartbeats import Heartbeats

__all__ = ["Standby"]

#: Seconds between two requests to a source that is away.
_POLL_INTERVAL: Final = 2.0

log = get_logger(__name__)


class Standby:
    """What a worker does until its source answers.

    Args:
        reason: why the source counts as away.
    """

    def __init__(
        self,
        reason: str,
        source: Discovery,
        target: Discovery,
        mirror: Mirror,
        *,
        heartbeats: Heartbeats,
        agenda: Agenda,
    ) -> None:
        self.reason = reason
        self._source = source
        self._target = target
        self._mirror = mirror
        self._heartbeats = heartbeats
        self._agenda = agenda
        self._found = False
        self._republished = False

    def schedule(self, schedule: Schedule, *, flush: float, refresh: float, republish: float) -> None:
        """Adds its periodic work, in seconds from time to time."""
        schedule.every(flush, self._flush, name="state publication")
        schedule.every(refresh, self._refresh, name="metadata of both clusters")
        schedule.every(republish, self._republish, name="publication of all state")

    async def run(self, stop: asyncio.Event, follow: Callable[[], None]) -> bool:
        """Returns when `stop` is set or the source has answered; whether it has.

        Args:
            follow: makes the routes those that the mirror has now.
        """
        log.warning(
            "the source is away: standing by; nothing is copied",
            reason=self.reason,
            hint="if its address is wrong, stop this worker and correct it",
        )
        stopping = asyncio.ensure_future(stop.wait())
        stopping.add_done_callback(lambda _: self._agenda.wake())
        waiting = asyncio.create_task(self._wait_for_source(), name="look for the source")
        while not (stop.is_set() or self._found):
            self._agenda.begin_turn()
            if self._mirror.caught_up and not self._republished:
                await self._republish()
                self._agenda.wants_reconcile()
            if self._agenda.reconcile:
                follow()
            await self._agenda.next_turn()
            if waiting.done():
                waiting.result()  # or an error in it would be seen by nobody
        stopping.cancel()
        waiting.cancel()
        await self._mirror.flush()
        await self._heartbeats.observe(MemberState.LEFT)
        return self._found

    async def _flush(self) -> None:
        await self._mirror.flush()

    async def _republish(self) -> None:
        """Writes all that is known to the target again, before brokers delete it: once, or as the least id."""
        if self._mirror.is_first or not self._republished:
            self._republished = True
            await self._mirror.write_all()

    async def _refresh(self) -> None:
        try:
            await self._target.refresh()
            await self._mirror.refresh()
        except (ReplicatorError, OSError) as error:
            log.warning("refresh failed", reason=str(error))

    async def _wait_for_source(self) -> None:
        """Returns when the source is back: when its name servers and one of its brokers answer."""
        while not self._source.topics:
            try:
                await self._source.refresh()
            except (ReplicatorError, OSError) as error:
                self.reason = str(error)
            await asyncio.sleep(_POLL_INTERVAL)
        log.warning("the source is back: starting")
        self._found = True
        self._agenda.wake()
