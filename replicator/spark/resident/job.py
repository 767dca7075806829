"""What a Spark job of resident queues is given when it is submitted; its queues come over the channel."""

from __future__ import annotations

from dataclasses import dataclass, field

from replicator.observe.level import Level
from replicator.ranges.access import Access
from replicator.routing.options import Identity
from replicator.routing.seal import Sealer

__all__ = ["ResidentJob"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentJob:
    """A job of one task, which runs until its owner ends it.

    Attributes:
        number: of the job, among those of the worker.
        owner: address at which the worker listens.
        key: proves both sides of the channel to each other.
        memory_bytes: what the task may hold of messages in flight.
        patience: seconds to retry if a cluster does not answer at the start.
    """

    number: int
    owner: tuple[str, int]
    key: bytes = field(repr=False)
    source: Access
    target: Access
    identity: Identity
    sealer: Sealer | None
    memory_bytes: int
    settle_timeout: float
    stall_timeout: float
    patience: float
    log_level: Level
