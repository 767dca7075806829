"""Small errors that somebody might make: the simulation must find each of them, or its judges are blind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from replicator.client.connection import Connection
from replicator.client.send import Stored
from replicator.group.coordinator import Coordinator
from replicator.group.membership import Membership, Side
from replicator.routing.batcher import Batch
from replicator.routing.faults import OutcomeUnknown
from replicator.routing.offset_map import OffsetMap
from replicator.routing.recovery import Tail
from replicator.routing.sink_task import SinkTask
from replicator.routing.source_task import SourceTask
from replicator.routing.state import QueueCounters
from replicator.routing.target_check import TargetCheck

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """`apply` makes the error, for the rest of the process."""

    what: str
    apply: Callable[[], None]


def _commit_before_the_answer() -> None:
    deliver = SinkTask._deliver

    async def early(self: SinkTask, batch: Batch) -> None:
        self._state.progress.position = batch.position
        await deliver(self, batch)

    SinkTask._deliver = early  # type: ignore[method-assign]


def _one_skipped() -> None:
    put = SourceTask._put

    def short(self: SourceTask, messages: Sequence[Any], end: int, size: int) -> None:
        put(self, messages[1:] if len(messages) > 20 else messages, end, size)

    SourceTask._put = short  # type: ignore[method-assign]


def _queues_swapped() -> None:
    fields = SinkTask._fields

    def other(self: SinkTask, batch: Batch) -> dict[str, str]:
        found = fields(self, batch)
        return found | {"e": "0" if found["e"] == "1" else found["e"]}

    SinkTask._fields = other  # type: ignore[method-assign]


def _provenance_dropped() -> None:
    body = SinkTask._body

    def bare(self: SinkTask, batch: Batch) -> Sequence[bytes]:
        return [bytes(each).replace(b"__RPL_SOURCE", b"__XXX_SOURCE") for each in body(self, batch)]

    SinkTask._body = bare  # type: ignore[method-assign]


def _resent_after_a_time_out() -> None:
    once = SinkTask._once

    async def twice(self: SinkTask, send: Callable[[Connection], Awaitable[Stored]], size: int) -> Stored:
        try:
            return await once(self, send, size)
        except OutcomeUnknown:
            return await send(await self._target.connection())

    SinkTask._once = twice  # type: ignore[method-assign]


def _offset_rounded_up() -> None:
    add = OffsetMap.add

    def rounded(self: OffsetMap, source: int, target: int, length: int) -> None:
        add(self, source, target + target % 2, length)

    OffsetMap.add = rounded  # type: ignore[method-assign]


def _gap_not_counted() -> None:
    def silent(self: QueueCounters, start: int, end: int) -> None:
        self.lost = (start, end)

    QueueCounters.lose = silent  # type: ignore[method-assign]


def _lease_ignored() -> None:
    def always(self: Coordinator, now: float) -> bool:
        return self.membership.echo > float("-inf")

    Coordinator.holds_lease = always  # type: ignore[method-assign]


def _lease_not_renewed() -> None:
    echoed = Membership.echoed

    def rarely(self: Membership, side: Side, sent: float) -> None:
        if sent - self.echo_of(side) >= self.timeout:
            echoed(self, side, sent)

    Membership.echoed = rarely  # type: ignore[method-assign]


def _tail_not_read() -> None:
    take = TargetCheck._take

    def blind(self: TargetCheck, tail: Tail) -> None:
        tail.copies, tail.last = [], None
        take(self, tail)

    TargetCheck._take = blind  # type: ignore[method-assign]


def _loss_not_seen() -> None:
    async def nothing(self: TargetCheck, known: object, tail: Tail) -> None:
        return None

    TargetCheck._lost = nothing  # type: ignore[method-assign]


MUTANTS: Final[dict[str, Mutant]] = {
    "commit-before-the-answer": Mutant(
        "the position moves before the target has answered", _commit_before_the_answer
    ),
    "one-skipped": Mutant("a message of an answer is left out", _one_skipped),
    "queues-swapped": Mutant("what belongs into queue 1 goes to queue 0", _queues_swapped),
    "provenance-dropped": Mutant("copies do not say where they come from", _provenance_dropped),
    "resent-after-a-time-out": Mutant("a send whose outcome is unknown is sent again", _resent_after_a_time_out),
    "offset-rounded-up": Mutant("the offset map names the next even target offset", _offset_rounded_up),
    "gap-not-counted": Mutant("what the source has lost is not counted", _gap_not_counted),
    "lease-ignored": Mutant("a worker sends though its lease is over", _lease_ignored),
    "lease-not-renewed": Mutant("heartbeats that come back renew the lease too late", _lease_not_renewed),
    "tail-not-read": Mutant("what the target stored without an answer is not taken", _tail_not_read),
    "loss-not-seen": Mutant("copies that the target has lost are not copied again", _loss_not_seen),
}
