"""What all queues of a route have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from replicator.client.cluster import Cluster
from replicator.routing.audit_segment import Difference
from replicator.routing.budget import MemoryBudget
from replicator.routing.dead_letter import DeadLetters
from replicator.routing.dispatch_barrier import DispatchBarrier
from replicator.routing.foreign_writes import ForeignWriteInspector
from replicator.routing.limiter import RateLimiter
from replicator.routing.options import RouteOptions
from replicator.routing.poll_pacer import PollPacer
from replicator.routing.recovery_slots import RecoverySlots
from replicator.routing.target_watch import TargetWatch
from replicator.routing.waiting_queues import WaitingQueues

__all__ = ["Auditing", "Shared"]


class Auditing(Protocol):
    """Reads back what was sent: `StreamAuditor` in `ranges/`, which compares."""

    def add(self, queue: Any) -> None:
        """`queue` is audited from now on."""
        ...

    def discard(self, queue: Any) -> None:
        """`queue` is not audited here any more."""
        ...

    def report(self, queue: Any, found: Iterable[Difference]) -> None:
        """Counts and names differences."""
        ...


def _always() -> bool:
    return True


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What all queues of a route have in common.

    Attributes:
        message_limit: bytes that a message, or a batch, may have at a target broker.
        may_send: whether this worker holds its lease.
        hears_other_secret: whether workers of the group write now that have another secret, or none.
        recovering: lets in the queues that may check their target and source at once.
        watch: knows the queues that are being copied; its creator runs it.
        auditor: reads back what was sent, unless it is None; its creator runs it.
    """

    source: Cluster
    target: Cluster
    options: RouteOptions
    budget: MemoryBudget
    limiter: RateLimiter
    dead_letters: DeadLetters
    inspector: ForeignWriteInspector
    recovering: RecoverySlots
    message_limit: Callable[[str], int]
    may_send: Callable[[], bool] = _always
    hears_other_secret: Callable[[], bool] = _never
    barrier: DispatchBarrier = field(default_factory=DispatchBarrier)
    watch: TargetWatch = field(default_factory=TargetWatch)
    auditor: Auditing | None = None
    pacer: PollPacer = field(default_factory=PollPacer)
    waiting: WaitingQueues = field(default_factory=WaitingQueues)
