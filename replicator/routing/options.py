"""How a route copies: its options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from replicator.client.pull import EVERYTHING, Subscription
from replicator.protocol.message import StoredMessage
from replicator.routing.body_compression import BodyCompression
from replicator.routing.parked import ReleasedMessages
from replicator.routing.queue_map import Queue
from replicator.routing.seal import Sealer

__all__ = ["Identity", "RouteOptions", "Transform"]

#: (source topic, source queue, message) -> what is to be sent instead, or None to leave it out. It keeps offset
#: and timestamps. Raises TransformRefused.
Transform = Callable[[str, Queue, StoredMessage], StoredMessage | None]


@dataclass(frozen=True, slots=True)
class Identity:
    """The ids of the two clusters, as they stand in provenance."""

    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteOptions:
    """Policies and limits of one route; see docs/CONFIG.md for what each means.

    `settle_timeout` is None if the wait was already done for all queues of the target. `audit_share` is the part of
    what is copied that is read back, at most, and 0 where there is no audit; `audit_rules` is another number once
    other messages are copied, or other ones are made of them. If there is a `sealer`, copies need its seal to be
    believed. Messages that the source stored before `late_before` (ms) come late: the target has taken over since.
    What was `released` there is not copied again.
    """

    identity: Identity
    forward: Literal["local", "all"] = "all"
    born_timestamp: Literal["batch", "exact"] = "batch"
    on_error: Literal["fail", "skip", "wait", "dead-letter"] = "fail"
    on_gap: Literal["fail", "skip"] = "skip"
    on_target_loss: Literal["resend", "fail", "wait"] = "resend"
    subscription: Subscription = EVERYTHING
    tags: frozenset[bytes] | None = None
    start_from: Literal["earliest", "latest"] | int = "earliest"
    batch_messages: int = 2048
    batch_bytes: int = 2 * 1024 * 1024
    pulls_in_flight: int = 64
    settle_timeout: float | None = 1.0
    dead_letter_topic: str = "replicator_sys_dead_letter"
    transform: Transform | None = None
    compression: BodyCompression | None = None
    sealer: Sealer | None = None
    late_before: int = 0
    audit_share: float = 0.0
    audit_rules: int = 0
    released: ReleasedMessages | None = None

    @property
    def filtered(self) -> bool:
        """Whether the broker leaves messages out of its answers."""
        return self.subscription != EVERYTHING

    @property
    def outgoing(self) -> Transform | None:
        """What makes of each message what is sent; None where they are sent as they are."""
        transform, compression = self.transform, self.compression
        if compression is None:
            return transform

        def both(topic: str, queue: Queue, message: StoredMessage) -> StoredMessage | None:
            changed = message if transform is None else transform(topic, queue, message)
            return None if changed is None else compression(changed)

        return both
