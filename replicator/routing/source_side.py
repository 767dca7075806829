"""The source of one queue: whether it is still the one that was copied, where to begin, and what reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol

from replicator.aio.clock import now
from replicator.client.brokers import check_filter, first_after, max_offset, min_offset, offset_at
from replicator.client.connection import Connection
from replicator.client.endpoint import Endpoint
from replicator.client.pull import message_at, pull
from replicator.errors import WrongBroker
from replicator.routing.channel import Channel, Source
from replicator.routing.faults import SourceLost, SourceReset
from replicator.routing.fork import last_common
from replicator.routing.look_back import UNWATCHED
from replicator.routing.message_filter import select
from replicator.routing.message_queue import MessageQueue
from replicator.routing.recovery import CopyRecord
from replicator.routing.shared import Shared
from replicator.routing.source_task import SourceTask
from replicator.routing.state import QueueState

__all__ = ["BrokerSource", "CopyAt", "SourceSide"]

#: Seconds for which a Proxy may take a former master for the master (`topicRouteServiceCacheRefreshSeconds` is 20,
#: and its name server's word some seconds old), and between two questions whether it still does.
_STALE: Final = 45.0
_PAUSE: Final = 1.0

#: What the target has at one of its offsets; None: no copy of the queue, or nothing any more.
CopyAt = Callable[[int], Awaitable[CopyRecord | None]]


class SourceSide(Protocol):
    """Where the messages of a queue come from."""

    async def check(self) -> None:
        """Makes sure that the position means what it meant when it was reached; sets it where there is none.

        Raises:
            SourceReset: the source has other messages before the position than those that were copied.
            ClientError: it cannot be asked.
        """
        ...

    async def first_offset(self) -> int:
        """The source offset where the copy begins, if nothing has been copied."""
        ...

    async def confirm(self, reset: SourceReset) -> None:
        """Returns when it is sure that the source was truncated or recreated, which may take a while.

        Raises:
            ClientError: it was not, or cannot be asked.
        """
        ...

    async def after_reset(self, reset: SourceReset, copy_at: CopyAt) -> int:
        """The source offset where the copy continues after the source was truncated or recreated."""
        ...

    async def left_out(self, start: int, copy: CopyRecord) -> int | None:
        """Which message the source has that belongs before a copy and after the one before it, at `start` or later.

        Returns: its offset; None: whatever lies there is not copied, or nobody can tell, such as after a reset.

        Raises:
            ClientError: it cannot be asked.
        """
        ...

    async def open(self, channel: Channel, offset: int) -> Source:
        """What reads from `offset` on into `channel`; not started yet."""
        ...

    def forget(self) -> None:
        """What was checked is no longer valid."""
        ...


class BrokerSource:
    """A queue of a broker of the source cluster.

    Args:
        from_start: the queue is new, so it is copied from its first message whatever `start_from` says.
        end: source offset before which the copy ends; None: it has no end.
    """

    def __init__(self, state: QueueState, shared: Shared, *, from_start: bool, end: int | None) -> None:
        self._state = state
        self._shared = shared
        self._from_start = from_start
        self._end = end
        #: Over which the source was checked, and when (s).
        self._checked: Connection | None = None
        self._checked_at = 0.0

    def forget(self) -> None:
        self._checked = None

    def _reader(self) -> Endpoint:
        return self._shared.source.reader(self._state.source.broker)

    async def check(self) -> None:
        state = self._state
        connection = await self._reader().connection()
        if connection is self._checked and now() - self._checked_at < UNWATCHED:
            return
        if state.progress.position is None:
            state.progress.position = await self.first_offset()
        elif not await self._is_the_same(state.progress.position):
            place = (self._reader(), state.topic, state.source.queue_id)
            raise SourceReset(state.progress.position, await min_offset(*place), await max_offset(*place))
        self._checked, self._checked_at = connection, now()

    async def _is_the_same(self, position: int) -> bool:
        """Whether the source still has what was read last before `position`, as far as it can be seen.

        The last copy does not show it where later messages were left out, such as copies that came from the target.
        """
        last, seen = self._state.progress.last, self._state.progress.seen
        if last is not None and await self._has(last.source, last.stored) is False:
            return False
        if seen is None or seen.offset >= position or (last is not None and seen.offset <= last.source):
            return True
        return await self._has(*seen) is not False

    async def _has(self, offset: int, stored: int) -> bool | None:
        """Whether the source has a message at `offset` that it stored at `stored` (ms); None: there is none now.

        That does not answer it: retention has deleted it, or the queue ends before it, which pulling will show.
        """
        state = self._state
        found = await message_at(self._reader(), state.topic, state.source.queue_id, offset)
        return None if found is None else found.store_timestamp == stored

    async def first_offset(self) -> int:
        state, start_from = self._state, self._shared.options.start_from
        place = (self._reader(), state.topic, state.source.queue_id)
        if state.progress.begin is not None:
            return max(state.progress.begin, await min_offset(*place))
        if self._from_start or start_from == "earliest":
            return await min_offset(*place)
        if start_from == "latest":
            return await max_offset(*place)
        return await offset_at(*place, start_from)

    async def confirm(self, reset: SourceReset) -> None:
        """A queue that ends too early behind a Proxy has to do so for a while.

        A master that has become a slave answers until the Proxy knows, and has less for a moment: what it lacks is
        not lost, and would be copied twice.
        """
        if not self._shared.source.is_proxy or reset.max_offset >= reset.position:
            return
        state, until = self._state, now() + _STALE
        while now() < until:
            await asyncio.sleep(_PAUSE)
            reader = self._reader()
            if await max_offset(reader, state.topic, state.source.queue_id) >= reset.position:
                raise WrongBroker(reader.address, f"another replica of {state.source.broker} had answered")

    async def after_reset(self, reset: SourceReset, copy_at: CopyAt) -> int:
        """In a recreated topic that is the first of all, in a truncated queue what came since, or its end.

        Where the last common message cannot be seen, store times tell, of which one broker's clock goes on.
        """
        state = self._state
        common = await last_common(state.progress.offsets, partial(self._holds, reset, copy_at))
        if common is not None:
            return common + 1
        place = (self._reader(), state.topic, state.source.queue_id)
        return await first_after(*place, reset.min_offset, reset.max_offset, state.progress.store_timestamp)

    async def _holds(self, reset: SourceReset, copy_at: CopyAt, source: int, target: int) -> bool | None:
        """Whether the source still has the message that was copied to the target offset `target`."""
        if source >= reset.max_offset:
            return False
        copy = None if source < reset.min_offset else await copy_at(target)
        return None if copy is None else await self._has(copy.source, copy.stored)

    async def left_out(self, start: int, copy: CopyRecord) -> int | None:
        state, options = self._state, self._shared.options
        if options.transform is not None or options.on_error in ("skip", "dead-letter"):
            return None  # only who copied them knows what became of them
        if await self._has(copy.source, copy.stored) is not True:
            return None  # it was recreated, or retention was faster
        place, offset = (self._reader(), state.topic, state.source.queue_id), start
        queue = MessageQueue(state.topic, *state.source)
        while offset < copy.source:
            pulled = await pull(*place, offset, subscription=options.subscription)
            for message in select(pulled.messages, options, queue)[0]:
                return message.queue_offset if message.queue_offset < copy.source else None
            if pulled.next_offset <= offset:
                return None
            offset = pulled.next_offset
        return None

    async def open(self, channel: Channel, offset: int) -> Source:
        shared, broker, reader = self._shared, self._state.source.broker, self._reader()
        if shared.options.subscription.kind == "SQL92":
            await check_filter(reader, shared.options.subscription)  # it may be another one than at the start
        connection = await reader.connection()
        if connection is not self._checked:
            raise SourceLost(f"the connection to {reader.address} is a new one: the source is checked first")
        return SourceTask(
            connection,
            channel,
            offset=offset,
            state=self._state,
            options=shared.options,
            budget=shared.budget,
            from_master=shared.source.is_master(broker, reader.address),
            sure_at=self._checked_at,
            end=self._end,
            slave=None if self._end is None else shared.source.slave(broker),
            pacer=shared.pacer,
        )
