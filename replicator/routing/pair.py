"""The source task and the sink task of one queue, kept going through whatever happens to either side.

What follows each event is decided in one place, the table of `queue_steps`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from replicator.aio.backoff import Backoff
from replicator.aio.set_within import set_within
from replicator.client.connection import Connection
from replicator.client.endpoint import Endpoint
from replicator.errors import ReplicatorError
from replicator.observe.logging import get_logger
from replicator.protocol.message import StoredMessage
from replicator.routing.audit_segment import Difference
from replicator.routing.data_path import DataPath
from replicator.routing.faults import Drained, SourceEnded, SourceGap, SourceLost, SourceReset, TargetChanged
from replicator.routing.message_queue import MessageQueue
from replicator.routing.provenance import Provenance
from replicator.routing.provenance import of as provenance_of
from replicator.routing.queue_steps import CHECKS, FINAL, TRANSITIONS, Event, Step, Transition, event_of
from replicator.routing.shared import Shared
from replicator.routing.source_side import BrokerSource, SourceSide
from replicator.routing.state import Phase, QueueState
from replicator.routing.target_check import TargetCheck

__all__ = ["QueuePair"]

#: Seconds to wait after a fault: the first time, and the most.
_BACKOFF_FIRST: Final = 0.1
_BACKOFF_MOST: Final = 5.0

log = get_logger(__name__)


class QueuePair:
    """Copies one source queue to one target queue until drained, cancelled, or at its end.

    Args:
        topic: the topic's name at the target.
        from_start: the queue is new, so it is copied from its first message whatever `start_from` says.
        end: source offset before which the copy ends; None: it has no end.
        source: where messages come from; None: the source cluster's broker.
    """

    def __init__(
        self,
        state: QueueState,
        shared: Shared,
        *,
        topic: str,
        from_start: bool,
        end: int | None = None,
        source: SourceSide | None = None,
    ) -> None:
        self.state = state
        self.topic = topic
        self.from_start = from_start
        self.source = source or BrokerSource(state, shared, from_start=from_start, end=end)
        self.shared = shared
        self._end = end
        self._stop = asyncio.Event()
        self._path: DataPath | None = None
        self._checking: asyncio.Timeout | None = None
        self._fault: ReplicatorError | None = None
        self._loss: SourceGap | SourceReset | None = None
        self._log = log.bind(connector=state.route, queue=str(MessageQueue(state.topic, *state.source)))
        self._target = TargetCheck(state, shared, topic, self.source, self._log)
        self._actions = {
            Step.CHECK_TARGET: self._target.run,
            Step.CHECK_SOURCE: self._check_source,
            Step.COPY: self._copy,
            Step.SKIP_LOSS: self._skip_loss,
        }

    # Called from outside.

    def drain(self) -> None:
        """No more pulls; what was pulled is still sent, but for what rate limits hold back, then `run` ends.

        A check ends at once: it may wait long for a broker that is away, and the next owner makes its own.
        """
        if self._stop.is_set():
            return
        self._stop.set()
        if self._checking is not None:
            self._checking.reschedule(asyncio.get_running_loop().time())
        if self._path is not None:
            self._path.end(Drained("drained"))

    def follow(self, address: str) -> None:
        """Moves to `address` when the source is to be read there now: its master came back, or moved."""
        if self._path is not None and self._path.source.address != address:
            self._path.end(SourceLost(f"the source broker is read at {address} from now on"))

    def recheck(self, reason: str) -> None:
        """Has the target checked before anything more is sent."""
        if self._path is not None:
            self._path.end(TargetChanged(reason))

    def unsettle(self) -> None:
        """Others may send what this pair is to continue after: it sends nothing before the target has settled."""
        self.state.progress.clean = False
        self._target.unsettled = True

    @property
    def target_connection(self) -> Connection | None:
        """Over which the target was checked."""
        return self._target.connection

    def target_place(self) -> tuple[Endpoint, str, int]:
        """The target queue's master, topic and number; `Unreachable` while it has no master."""
        return self._target.place()

    def count_foreign(self, message: StoredMessage) -> bool:
        """Counts a message of the target queue that was not stored by the last batches; whether others wrote it."""
        found, offset = provenance_of(message, self.topic), message.queue_offset
        if found is not None and self._target.is_ours(found):
            self.state.counters.duplicates += 1
            self._log.error("duplicate at the target", offset=offset, source=found.offset)
            self._differs(self._twin(found, offset))
            return False
        self.state.counters.found_foreign(offset)
        if found is not None and found.cluster == self.shared.options.identity.source:
            place = f"{found.broker}/{found.queue_id}/{found.offset}"
            self._differs(Difference("misplaced", None, offset, f"a copy of {place}"))
        return True

    def _twin(self, found: Provenance, offset: int) -> Difference:
        """What a copy is that came besides those that were sent."""
        position = self.state.progress.position
        if position is not None and found.offset >= position:
            return Difference("unknown", found.offset, offset, "this message has not been copied yet")
        return Difference("duplicate", found.offset, offset, "stored besides what was sent")

    def _differs(self, difference: Difference) -> None:
        if self.state.audit.share and self.shared.auditor is not None:
            self.shared.auditor.report(self, [difference])

    def passed(self, end: int) -> None:
        """The target queue ends at `end`, behind what was acknowledged: what others have written is inspected."""
        progress, path = self.state.progress, self._path
        if progress.target_end is None or path is None or path.sink.suspicious:
            return  # the next answer, or check, decides whether that was a request of ours
        self.shared.inspector.add(self, progress.target_end, end)
        progress.target_end = end

    # The steps.

    async def run(self) -> None:
        """Runs until drained, failed by policy, or cancelled."""
        auditor = self.shared.auditor if self.shared.options.audit_share else None
        if auditor is None:
            return await self._run()
        auditor.add(self)
        try:
            return await self._run()
        finally:
            auditor.discard(self)

    async def _run(self) -> None:
        step, backoff = Step.CHECK_TARGET, Backoff(_BACKOFF_FIRST, _BACKOFF_MOST)
        last = self.state.progress.position
        self.shared.waiting.end(self.state)  # whatever became of it when it ran before
        while step not in FINAL:
            event = await self._do(step)
            transition = TRANSITIONS[step, event]
            self._enter(event, transition)
            step = transition.to
            if transition.pause:
                if self.state.progress.position != last:  # moved by any step since the last pause
                    backoff.reset()
                last = self.state.progress.position
                await set_within(self._stop, backoff.next())

    async def _do(self, step: Step) -> Event:
        """How the step ended; what it ended with is in `_fault`."""
        self._fault = None
        if self._stop.is_set():
            return Event.DRAINED
        try:
            await (self._check(step) if step in CHECKS else self._actions[step]())
        except ReplicatorError as fault:
            event = event_of(fault)
            if event is None:
                raise
            self._fault = fault
            if isinstance(fault, SourceGap | SourceReset):
                self._loss = fault
            return event
        return Event.DRAINED if step is Step.COPY else Event.DONE

    async def _check(self, step: Step) -> None:
        """Makes a check, unless the queue is to end meanwhile.

        Raises:
            Drained: it is.
            ReplicatorError: as the check does.
        """
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._checking = scope
                await self._actions[step]()
        except TimeoutError:
            if not scope.expired():
                raise
            raise Drained("drained") from None
        finally:
            self._checking = None

    def _enter(self, event: Event, transition: Transition) -> None:
        """Makes the state say what has happened."""
        state, fault, waiting = self.state, self._fault, self.shared.waiting
        if transition.unsettled:
            self._target.unsettled = True
        if transition.unshown:
            self._target.unshown = True
        if transition.to is Step.CHECK_SOURCE and transition.phase is Phase.WAITING:
            self.source.forget()
        if transition.clean is not None:
            # Nobody has seen since whether a dead owner's request was stored: the next one has to.
            unseen = event is Event.DRAINED and self._target.suspicious
            state.progress.clean = transition.clean and not unseen
        if transition.phase is None:
            return
        if event in (Event.DONE, Event.DRAINED, Event.ENDED) or fault is None:
            over = waiting.end(state)
            if transition.phase is Phase.RUNNING and state.reason and over:
                self._log.info("no longer waiting", waited_for=state.reason, **waiting.name(state))
            state.set_phase(transition.phase)
            return
        if event not in (Event.TARGET_CHANGED, Event.STORED_ELSEWHERE):
            state.counters.error(fault)
        if transition.phase is Phase.FAILED:
            self._log.error("queue failed", reason=str(fault))
        elif (state.phase, state.reason) != (why := (transition.phase, str(fault))) and waiting.begin(state, why):
            self._log.warning(transition.phase.lower(), reason=str(fault), **waiting.name(state))
        state.set_phase(transition.phase, str(fault))

    async def _check_source(self) -> None:
        progress, slots = self.state.progress, self.shared.recovering
        async with slots.at("source", self.state.source.broker):
            await self.source.check()
        if progress.start is None and progress.last is None:
            progress.start = progress.position
        elif progress.start is None:
            async with slots.at("target", self.state.target.broker):
                progress.start = await self._target.first_copied()

    async def _copy(self) -> None:
        """Returns only when drained; raises whatever else ends it."""
        state, shared, target = self.state, self.shared, self._target
        if self._end is not None and state.progress.position is not None and state.progress.position >= self._end:
            raise SourceEnded("everything was copied before")
        assert target.connection is not None  # noqa: S101 - the check of the target has set it
        path = await DataPath.open(
            state,
            shared,
            topic=self.topic,
            source=self.source,
            target=target.connection,
            suspicious=target.suspicious,
            on_shift=partial(shared.inspector.add, self),
        )
        self._path = path
        shared.watch.add(self)
        try:
            if not self._stop.is_set():
                self._log.debug("copying", position=state.progress.position, source=path.source.address)
                await path.run()
        finally:
            self._path = None
            shared.watch.discard(self)
            state.counters.waits.end()
            target.suspicious = path.sink.suspicious
            path.close()

    async def _skip_loss(self) -> None:
        """Counts what the source has lost, and sets the position after it unless the policy is to fail."""
        state, fault = self.state, self._loss
        assert fault is not None  # noqa: S101 - see the table
        if isinstance(fault, SourceGap):
            state.counters.lose(fault.start, fault.end)
        else:
            await self.source.confirm(fault)
            state.reset()
        if self.shared.options.on_gap == "fail":
            raise fault
        self._log.error("source gap", reason=fault.message)
        if isinstance(fault, SourceGap):
            state.progress.position = fault.end
            return
        state.progress.position = await self.source.after_reset(fault, self._target.copy_at)
        state.progress.resumed = state.progress.position
        state.progress.seen = None
        state.counters.reset_at = None
        state.progress.offsets.clear()
        state.progress.target_floor = state.progress.target_end or 0
        state.audit.restart()
