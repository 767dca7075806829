"""The auditor of a worker: reads back what its sink tasks have sent, and says what differs.

The owner of a queue audits it, over the connection that reads the target, not the one that its sink task sends
over: it alone knows at once what was sent, what was sent again and what is known to be twice. To let another worker
do it, checksums and results of each queue would have to go over the system topics, which doubles what the group
publishes there. After a takeover the new owner compares what was not verified with the source itself.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from replicator.aio.backoff import Backoff, pause_after
from replicator.aio.clock import now
from replicator.client.endpoint import Endpoint
from replicator.errors import ReplicatorError, Unreachable
from replicator.observe.logging import get_logger
from replicator.protocol.message import StoredMessage
from replicator.ranges.audit_judge import Wanted, judge
from replicator.ranges.read_back import Outcome, read_back, stored
from replicator.ranges.reader import RangeReader
from replicator.routing.audit_budget import AuditBudget
from replicator.routing.audit_segment import SEGMENT, Difference, Segment
from replicator.routing.audit_trail import AuditTrail
from replicator.routing.faults import TransformRefused
from replicator.routing.message_queue import MessageQueue
from replicator.routing.shared import Shared
from replicator.routing.state import QueueState

__all__ = ["StreamAuditor"]

#: Seconds between two looks at what there is to read back.
_TICK: Final = 0.25
#: Segments that are read at a time: in all, of one queue, and those that are compared with the source.
_AT_ONCE: Final = 64
_OF_QUEUE: Final = 16
_COMPARED: Final = 2
#: Queues that are looked at before other tasks of the event loop get a turn.
_TURN: Final = 512
#: Seconds until what a broker does not show or could not be asked for is read again: the first time, and the most.
_PAUSE_FIRST: Final = 0.25
_PAUSE_MOST: Final = 5.0
#: Attempts after which what a broker does not show counts as missing: about a minute.
_UNSHOWN: Final = 20
#: Failures of a broker at a segment after which it is asked for its messages one by one.
_FAILURES: Final = 3
#: Differences of one segment that are logged one by one.
_LOGGED: Final = 20

log = get_logger(__name__)


def _nowhere(event: Mapping[str, Any]) -> None:
    """The log has it."""


class Audited(Protocol):
    """A queue that is copied, and audited."""

    state: QueueState

    @property
    def shared(self) -> Shared:
        """What it has in common with the other queues of its route."""
        ...

    def target_place(self) -> tuple[Endpoint, str, int]:
        """The target queue's master, topic and number; `Unreachable` while it has no master."""
        ...


class StreamAuditor:
    """Audits queues from `add` to `discard`.

    Args:
        record: keeps an event beside the log.
    """

    def __init__(self, record: Callable[[Mapping[str, Any]], None] = _nowhere) -> None:
        self.budget = AuditBudget()
        self.record = record
        self._queues: dict[Audited, int] = {}
        self._reading = 0
        self._pauses: defaultdict[str, Backoff] = defaultdict(lambda: Backoff(_PAUSE_FIRST, _PAUSE_MOST))
        self._not_before: dict[str, float] = {}
        self._comparing = asyncio.Semaphore(_COMPARED)

    def add(self, queue: Audited) -> None:
        """`queue` is audited from now on."""
        options = queue.shared.options
        queue.state.audit.begin(options.audit_share, self.budget, options.audit_rules)
        self._queues[queue] = 0
        self.budget.queues = len(self._queues)

    def discard(self, queue: Audited) -> None:
        """`queue` is not audited here any more."""
        if self._queues.pop(queue, None) is not None:
            queue.state.audit.end()
        self.budget.queues = len(self._queues)

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as readers:
            while True:
                await asyncio.sleep(_TICK)
                await self._turn(readers)

    async def _turn(self, readers: asyncio.TaskGroup) -> None:
        """Begins to read what is due."""
        at = now()
        self.budget.refill(at)
        for number, queue in enumerate(list(self._queues), 1):
            if number % _TURN == 0:
                await asyncio.sleep(0)
            state = queue.state
            if state.audit.is_idle or self._not_before.get(state.target.broker, 0.0) > at:
                continue
            while queue in self._queues and self._queues[queue] < _OF_QUEUE and self._reading < _AT_ONCE:
                segment = state.audit.take(at)
                if segment is None:
                    break
                self._reading += 1
                self._queues[queue] += 1
                readers.create_task(self._read(queue, segment))
            if self._reading >= _AT_ONCE:  # the others come first at the next turn
                self._queues = {each: self._queues[each] for each in [*self._queues][number:]} | self._queues
                return

    async def _read(self, queue: Audited, segment: Segment) -> None:
        trail, broker = queue.state.audit, queue.state.target.broker
        try:
            await self._judge(queue, segment)
        except Unreachable as error:
            pause = self._pauses[broker]
            if not pause.attempts:
                log.info("the target cannot be read back now", **_named(queue), reason=str(error))
            self._not_before[broker] = now() + pause.next()
            segment.unshown = 0  # it may not show all of it at first when it is back
            trail.retry(segment, 0.0)
        except ReplicatorError as error:
            segment.failures += 1
            if segment.failures == 1:
                log.info("copies cannot be read back now", **_named(queue), reason=str(error))
            self._retry(trail, segment)
        except Exception:
            log.exception("audit failed", **_named(queue), offset=segment.start, count=len(segment))
            trail.conclude(segment, now(), unverified="error")
        else:
            self._pauses.pop(broker, None)
        finally:
            self._reading -= 1
            if queue in self._queues:
                self._queues[queue] -= 1

    async def _judge(self, queue: Audited, segment: Segment) -> None:
        trail, outcome = queue.state.audit, Outcome.DIFFERS
        if segment.checked and segment.failures < _FAILURES:
            outcome, pulls = await read_back(queue.target_place(), segment)
            self.budget.spend(pulls - segment.pulls)
        found: list[Difference] = []
        if outcome is Outcome.UNSHOWN and segment.unshown >= _UNSHOWN:
            outcome = Outcome.DIFFERS
        if outcome is Outcome.DIFFERS and not segment.dropped:
            async with self._comparing:
                outcome, found = await self._compare(queue, segment)
        if outcome is Outcome.UNSHOWN and segment.unshown < _UNSHOWN:
            segment.unshown += 1
            self._retry(trail, segment)
            return
        if found and not segment.dropped:  # else it was copied again meanwhile
            self.report(queue, found)
        unverified = "retention" if outcome is Outcome.GONE else ""
        trail.conclude(segment, now(), unverified=unverified, differs=bool(found))

    def _retry(self, trail: AuditTrail, segment: Segment) -> None:
        trail.retry(segment, now() + pause_after(segment.attempts, _PAUSE_FIRST, _PAUSE_MOST))

    async def _compare(self, queue: Audited, segment: Segment) -> tuple[Outcome, list[Difference]]:
        """Compares a segment with the source, message by message."""
        singly = segment.failures >= _FAILURES
        there = await stored(queue.target_place(), segment.start, segment.end + segment.beyond, singly=singly)
        self.budget.spend(2 * there.pulls)
        if there.outcome is Outcome.GONE:
            return Outcome.GONE, []
        if there.outcome is Outcome.UNSHOWN and segment.unshown < _UNSHOWN:
            return Outcome.UNSHOWN, []
        state, cluster = queue.state, queue.shared.options.identity.source
        wanted = [each for each in await self._wanted(queue, segment) if each.target not in there.broken]
        found = judge(cluster, state.source, wanted, there.messages, topic=queue.target_place()[1])
        source_of = state.progress.offsets.source_of
        found += [Difference("changed", source_of(at), at, why) for at, why in there.broken.items()]
        if segment.found:  # whoever read the queue when it was found has counted those
            found = [each for each in found if each.kind != "duplicate"]
        if not found and segment.checked and any(each.message is None for each in wanted):
            what = f"some of the {len(segment)} messages from there on; the source no longer has all of them"
            found = [Difference("changed", segment.source, segment.start, what)]
        return (Outcome.DIFFERS if found else Outcome.SAME), found

    async def _wanted(self, queue: Audited, segment: Segment) -> list[Wanted]:
        """What a segment is to have, as the source has it now and the route makes it.

        Messages without a known copy may be missing. So many of them are named, and not all that the source may
        have between two copies: they would not fit into memory.
        """
        options, state = queue.shared.options, queue.state
        reader = RangeReader(
            queue.shared.source,
            state.topic,
            state.source,
            segment.source,
            segment.source_end,
            on_loss="skip",
            options=options,
        )
        offsets = state.progress.offsets
        known = offsets.source_of(segment.start) is not None
        # What was refused is accounted for by its policy; of what was found nobody remembers whether it was.
        strict = not known or (segment.found and options.on_error in ("fail", "wait"))
        room = len(segment) + SEGMENT if strict else 0
        wanted: dict[int, Wanted] = {}
        async for messages in reader.chunks():
            for message in messages:
                source = message.queue_offset
                target = offsets.target_of(source)
                if target is None and not room:
                    continue
                if (made := _as_sent(queue, message)) is None:
                    continue
                if target is None:
                    room -= 1
                wanted[source] = Wanted(source, target, made)
        if reader.gaps:
            for copied in map(offsets.source_of, range(segment.start, segment.end)):
                if copied is not None and copied not in wanted:
                    wanted[copied] = Wanted(copied, offsets.target_of(copied), None)
        return [wanted[source] for source in sorted(wanted)]

    def report(self, queue: Audited, found: Iterable[Difference]) -> None:
        """Counts and names differences; each only once."""
        new, target = queue.state.audit.differ(found), queue.state.target
        for each in new[:_LOGGED]:
            what = {
                "kind": each.kind,
                "source_offset": each.source,
                "target": str(target),
                "target_offset": each.target,
                "detail": each.detail,
            }
            log.error("difference at the target", **_named(queue), **what)
            self.record({"action": "difference", **_named(queue), **what})
        if len(new) > _LOGGED:
            log.error("more differences at the target", **_named(queue), count=len(new) - _LOGGED)


def _as_sent(queue: Audited, message: StoredMessage) -> StoredMessage | None:
    """What the route makes of a message, but for its compression; None if it does not send it."""
    transform = queue.shared.options.transform
    if transform is None:
        return message
    try:
        return transform(queue.state.topic, queue.state.source, message)
    except TransformRefused:
        return None


def _named(queue: Audited) -> dict[str, str]:
    """The queue as logs name it."""
    return {"connector": queue.state.route, "queue": str(MessageQueue(queue.state.topic, *queue.state.source))}
