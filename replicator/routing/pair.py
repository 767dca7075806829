"""The source task and the sink task of one queue, put together, kept going, and taken apart.

It is the only place that decides what follows a fault: wait, read the target's tail again, go on behind
a gap, or stand still until a person has decided.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from replicator.client.brokers import check_filter, first_after, max_offset, min_offset, offset_at
from replicator.client.cluster import Cluster
from replicator.client.endpoint import Endpoint
from replicator.client.pull import pull
from replicator.errors import ClientError, ProtocolError, ReplicatorError
from replicator.observe.logging import get_logger
from replicator.protocol.message import StoredMessage
from replicator.routing.batcher import Batcher
from replicator.routing.budget import MemoryBudget
from replicator.routing.channel import Channel, Source
from replicator.routing.dead_letter import DeadLetters
from replicator.routing.dispatch_barrier import DispatchBarrier
from replicator.routing.faults import (
    LeaseLost,
    OutcomeUnknown,
    QueueFailed,
    SourceEnded,
    SourceGap,
    SourceLost,
    SourceReset,
    TargetBlocked,
)
from replicator.routing.foreign_writes import ForeignWriteInspector
from replicator.routing.limiter import RateLimiter
from replicator.routing.options import RouteOptions
from replicator.routing.packing import Packer
from replicator.routing.provenance import Provenance, Stamp
from replicator.routing.provenance import read as read_provenance
from replicator.routing.recovery import CopyRecord, Tail, first_copy, read_on, read_tail
from replicator.routing.selector import RETRY_PREFIX
from replicator.routing.sink_task import SinkTask
from replicator.routing.source_task import SourceTask
from replicator.routing.state import Phase, QueueState
from replicator.routing.transforming import Transforming

__all__ = ["QueuePair", "Shared"]

#: Seconds to wait after a fault: the first time, and the most.
_BACKOFF_FIRST: Final = 0.1
_BACKOFF_MOST: Final = 5.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What all queues of a route have in common.

    `may_send` says whether this worker holds its lease. Only so many queues recover at once as `recovering` lets
    in: a start of thousands must not keep the event loop from the group's heartbeats.
    """

    source: Cluster
    target: Cluster
    options: RouteOptions
    budget: MemoryBudget
    limiter: RateLimiter
    dead_letters: DeadLetters
    inspector: ForeignWriteInspector
    recovering: asyncio.Semaphore
    message_limit: Callable[[str], int]
    may_send: Callable[[], bool] = lambda: True
    barrier: DispatchBarrier = field(default_factory=DispatchBarrier)


class _Drained(ReplicatorError):
    """All that was pulled is settled, and no more is to be pulled."""


class QueuePair:
    """Copies one source queue to one target queue until drained, cancelled, or at its end.

    Args:
        topic: the topic's name at the target.
        from_start: the queue is new, so it is copied from its first message whatever `start_from` says.
        end: source offset before which the copy ends; None: it goes on.
    """

    def __init__(
        self, state: QueueState, shared: Shared, *, topic: str, from_start: bool, end: int | None = None
    ) -> None:
        self.state = state
        self._shared = shared
        self.topic = topic
        self.from_start = from_start
        self._end = end
        self._stop = asyncio.Event()
        self._copying: tuple[Source, Channel] | None = None
        self._suspicious = True
        self._compared = False
        self._blocked = False
        self._log = log.bind(topic=state.topic, broker=state.source.broker, queue=state.source.queue_id)

    def drain(self) -> None:
        """No more pulls; what was pulled is still sent, then `run` ends."""
        self._stop.set()
        if self._copying is not None:
            source_task, channel = self._copying
            source_task.stop()
            channel.fail(_Drained("drained"))

    def follow(self, address: str) -> None:
        """Moves to `address` when the source is to be read there now: its master came back, or moved."""
        if self._copying is not None and self._copying[0].address != address:
            source_task, channel = self._copying
            source_task.stop()
            channel.fail(SourceLost(f"the source broker is to be read at {address} now"))

    async def run(self) -> None:
        """Runs until drained, failed by policy, or cancelled."""
        state, pause, unknown = self.state, _BACKOFF_FIRST, True
        while not self._stop.is_set():
            before = state.position
            try:
                if unknown:
                    await self._recover()
                    unknown = False
                elif not self._compared:
                    await self._compare(self.state.last)
                await self._copy()
            except (_Drained, SourceEnded):
                state.clean = True
                state.set_phase(Phase.STOPPED)
                return
            except OutcomeUnknown as fault:
                self._blocked = False
                unknown = self._suspicious = True
                self._waits(Phase.RECOVERING, fault)
            except (TargetBlocked, SourceLost, ClientError, ProtocolError) as fault:
                self._blocked = isinstance(fault, TargetBlocked)
                if isinstance(fault, SourceLost):
                    self._compared = False  # the broker may come back with less than it had, and grow again
                self._waits(Phase.WAITING, fault)
            except (SourceGap, SourceReset) as fault:
                unknown = not await self._goes_on(fault)
                if state.phase is Phase.FAILED:
                    return
            except QueueFailed as fault:
                self._fail(fault)
                return
            except LeaseLost as fault:
                self._waits(Phase.STOPPED, fault)
                return
            pause = _BACKOFF_FIRST if state.position != before else min(_BACKOFF_MOST, pause * 2)
            await self._pause(pause * random.uniform(0.5, 1.0))
        state.clean = not unknown
        state.set_phase(Phase.STOPPED)

    def _waits(self, phase: Phase, fault: ReplicatorError) -> None:
        self.state.error(fault)
        if self.state.reason != str(fault):
            self._log.warning(str(phase), reason=str(fault))
        self.state.set_phase(phase, str(fault))

    def _fail(self, fault: ReplicatorError) -> None:
        self.state.error(fault)
        self._log.error("queue failed", reason=str(fault))
        self.state.set_phase(Phase.FAILED, str(fault))

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    async def _copy(self) -> None:
        state, shared, options = self.state, self._shared, self._shared.options
        assert state.position is not None  # noqa: S101 - _recover has set it
        if self._end is not None and state.position >= self._end:
            raise SourceEnded("all was copied before")
        writer = shared.target.writer(state.target.broker)
        packer = Packer(
            Stamp(options.identity.source, *state.source),
            topic=self.topic,
            limit=min(options.batch_bytes, shared.message_limit(state.target.broker)),
            max_messages=1 if self.topic.startswith(RETRY_PREFIX) else options.batch_messages,
            exact_born=options.born_timestamp == "exact",
        )
        transforming = None
        if options.transform is not None:
            transforming = Transforming(options.transform, state.topic, state.source, ahead=options.batch_messages)
        channel = Channel(shared.budget, packer if transforming is None else None)
        source_task = await self.source_task(channel, state.position)
        batcher = Batcher(channel, packer, transformed=transforming is not None)
        sink_task = SinkTask(
            writer,
            channel,
            batcher,
            topic=self.topic,
            state=state,
            options=options,
            limiter=shared.limiter,
            dead_letters=shared.dead_letters,
            on_taken=source_task.pump,
            on_shift=partial(shared.inspector.add, self),
            suspicious=self._suspicious,
            may_send=shared.may_send,
            transforming=transforming,
        )
        if not self._blocked:  # else only a message that the target takes proves that it is over
            state.set_phase(Phase.RUNNING)
        self._copying = (source_task, channel)
        try:
            if self._stop.is_set():
                return
            self._log.debug("copying", position=state.position, source=source_task.address, target=writer.address)
            source_task.start()
            await sink_task.run()
        finally:
            self._copying = None
            state.waits.end()
            self._suspicious = sink_task.suspicious
            source_task.stop()
            channel.drop()

    async def source_task(self, channel: Channel, offset: int) -> Source:
        """What reads the source from `offset` on into `channel`; not started yet."""
        shared, broker = self._shared, self.state.source.broker
        reader = shared.source.reader(broker)
        if shared.options.subscription.kind == "SQL92":
            await check_filter(reader, shared.options.subscription)  # it may be another one than at the start
        return SourceTask(
            await reader.connection(),
            channel,
            offset=offset,
            state=self.state,
            options=shared.options,
            budget=shared.budget,
            from_master=shared.source.is_master(broker, reader.address),
            end=self._end,
            slave=None if self._end is None else shared.source.slave(broker),
        )

    async def _recover(self) -> None:
        state, shared = self.state, self._shared
        state.set_phase(Phase.RECOVERING, state.reason)
        place = self.target_place()
        known = state.last
        read = partial(
            read_tail, *place, mine=self._mine, known=known, floor=state.target_floor, counted=state.target_end or 0
        )
        async with shared.recovering:
            tail = await read()
            if known is not None and not tail.known_holds:
                # Acknowledged, and not to be seen: lost, or not shown yet.
                await shared.barrier.caught_up(place[0])
                tail = await read()
        if not state.clean and shared.options.settle_seconds is not None:
            # The last request of whoever sent before may still wait inside the broker.
            await asyncio.sleep(shared.options.settle_seconds)
            async with shared.recovering:
                await shared.barrier.caught_up(place[0])
                await read_on(*place, tail, mine=self._mine)
        self._suspicious = not state.clean
        state.clean = False
        state.target_end = tail.end
        state.foreign += tail.foreign
        state.repeated += tail.repeated
        if tail.repeated:
            self._log.error("repeated at the target", count=tail.repeated)
        self._take(tail, known)
        async with shared.recovering:
            await self._resume(tail)
        self._log.debug("recovered", position=state.position, target_end=tail.end, copies=len(tail.copies))

    def _take(self, tail: Tail, known: CopyRecord | None) -> None:
        """Makes the state agree with what the target has."""
        state = self.state
        if known is not None and not tail.known_holds:
            self._log.warning("the target has lost messages that it had acknowledged", known=known, last=tail.last)
            state.offsets.clear()
            state.position = None
        if tail.anew:
            state.offsets.clear()
            state.position = None
            state.target_floor = tail.copies[0].target
        for copy in tail.copies:
            state.offsets.add(copy.source, copy.target, 1)
            if state.position is not None and copy.source >= state.position:
                state.copied_before += 1  # nobody was told that it had arrived
        if tail.last is not None:
            state.position = max(state.position or 0, tail.last.source + 1)
            state.store_timestamp = tail.last.stored

    async def _resume(self, tail: Tail) -> None:
        """Sets the position."""
        state = self.state
        if state.position is None:
            state.position = await self.first_offset()
        elif not self._compared:
            await self._compare(tail.last)
        if state.start is None:
            state.start = state.position if tail.last is None else await self._begun_at()
        self._compared = True

    async def _begun_at(self) -> int | None:
        """Where the copy began, whose state is lost, as far as the target still has it."""
        return await first_copy(*self.target_place(), mine=self._mine, floor=self.state.target_floor)

    async def _compare(self, last: CopyRecord | None) -> None:
        """Looks whether the source is still the one that was copied.

        Raises:
            SourceReset: it has another message now where the last copy came from.
        """
        assert self.state.position is not None  # noqa: S101 - callers have set it
        if last is not None and not await self.is_there(last):
            raise SourceReset(self.state.position, *await self._source_ends())
        self._compared = True

    async def _source_ends(self) -> tuple[int, int]:
        state = self.state
        broker = self._shared.source.reader(state.source.broker)
        place = (broker, state.topic, state.source.queue_id)
        return await min_offset(*place), await max_offset(*place)

    async def first_offset(self) -> int:
        """Source offset where its copy begins, if nothing of it has been copied."""
        state, start_from = self.state, self._shared.options.start_from
        broker = self._shared.source.reader(state.source.broker)
        place = (broker, state.topic, state.source.queue_id)
        if state.start is not None:
            return max(state.start, await min_offset(*place))
        if self.from_start or start_from == "earliest":
            return await min_offset(*place)
        if start_from == "latest":
            return await max_offset(*place)
        return await offset_at(*place, start_from)

    async def is_there(self, copy: CopyRecord) -> bool:
        """Whether the source still has the message that `copy` came from, as far as it can be seen."""
        state = self.state
        reader = self._shared.source.reader(state.source.broker)
        pulled = await pull(reader, state.topic, state.source.queue_id, copy.source, count=1)
        if not pulled.messages or pulled.messages[0].queue_offset != copy.source:
            return True  # retention has taken it, or the queue ends before it: pulling will tell
        return pulled.messages[0].store_timestamp == copy.stored

    def _mine(self, found: Provenance) -> bool:
        source = self.state.source
        return (
            found.cluster == self._shared.options.identity.source
            and found.broker == source.broker
            and found.queue_id == source.queue_id
        )

    def target_place(self) -> tuple[Endpoint, str, int]:
        return self._shared.target.master(self.state.target.broker), self.topic, self.state.target.queue_id

    def look(self, message: StoredMessage) -> None:
        found = read_provenance(message.properties)
        if found is not None and self._mine(found):
            self.state.repeated += 1
            self._log.error("repeated at the target", offset=message.queue_offset, source=found.offset)
        else:
            self.state.foreign += 1

    async def _goes_on(self, fault: SourceGap | SourceReset) -> bool:
        """Counts what the source has lost, and sets the position behind it unless the policy is to fail."""
        state = self.state
        if isinstance(fault, SourceGap):
            state.lose(fault.start, fault.end)
        else:
            state.reset()
        if self._shared.options.on_gap == "fail":
            self._fail(fault)
            return False
        self._log.error("source gap", reason=fault.message)
        if isinstance(fault, SourceGap):
            state.position = fault.end
            return True
        reader = self._shared.source.reader(state.source.broker)
        place = (reader, state.topic, state.source.queue_id)
        try:  # in a topic made anew that is the first of all, in a truncated queue what came since, or its end
            state.position = await first_after(*place, fault.min_offset, fault.max_offset, state.store_timestamp)
        except ClientError as error:
            self._waits(Phase.WAITING, error)
            return False
        state.reset_at = None
        state.offsets.clear()
        state.target_floor = state.target_end or 0
        return True
