"""What is copied by tasks, how, and what came of it: values that are sent to executors and back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

import msgspec

from replicator.client.cluster import Cluster
from replicator.errors import ReplicatorError
from replicator.ranges.access import Access
from replicator.ranges.rates import RateLimited
from replicator.routing.message_queue import MessageQueue
from replicator.routing.options import RouteOptions
from replicator.routing.queue_map import Queue
from replicator.routing.recovery import CopyRecord
from replicator.settings import Settings

__all__ = ["CopyFailed", "CopyJob", "CopyOutcome", "Lease", "Range", "TargetJob"]


class CopyFailed(ReplicatorError):
    """A range could not be copied to its end; what has arrived stays, and the next attempt continues after it."""


class Range(msgspec.Struct, frozen=True, omit_defaults=True):
    """Messages [start, end) of a source queue, and the target queue that they go to."""

    topic: str
    source: Queue
    target_topic: str
    target: Queue
    start: int
    end: int

    @property
    def key(self) -> str:
        """The name of the source queue."""
        return str(MessageQueue(self.topic, *self.source))


class CopyOutcome(msgspec.Struct, frozen=True):
    """The outcome of the range `key`: its counts add up to `end` - `start`, unless `error` says why it stopped.

    `copied` counts messages sent by the last attempt, `before` those that were at the target when it started,
    `gaps` those that the source no longer had, `left_out` those that the route's filters left out. `first` and
    `last` are the target offsets that the attempt knows, `tail` is the last copy. `duplicates` counts second
    copies, `foreign` messages of other producers in between.
    """

    key: str
    start: int
    end: int
    copied: int = 0
    before: int = 0
    gaps: int = 0
    left_out: dict[str, int] = {}
    first: int | None = None
    last: int | None = None
    tail: CopyRecord | None = None
    resets: int = 0
    duplicates: int = 0
    foreign: int = 0
    seconds: float = 0.0
    error: str = ""

    @classmethod
    def failed(cls, part: Range, error: str) -> CopyOutcome:
        """The outcome of a range that could not be copied to its end."""
        return cls(part.key, part.start, part.end, error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetJob(RateLimited):
    """How all ranges are written to the target; a task without progress for `stall_timeout` ends with an error.

    `settled`: the driver has seen that the target's brokers have no requests in progress any more.
    """

    target: Access
    options: RouteOptions
    memory_bytes: int
    stall_timeout: float = 60.0
    settled: bool = False


class Lease(Protocol):
    """Allows tasks to send while it is held; it is sent to executors. `coordination` is the cluster that tells."""

    @property
    def coordination(self) -> str: ...

    def held(self, cluster: Cluster) -> AbstractAsyncContextManager[Callable[[], bool]]:
        """A check, for use in the context, that the lease is still held; entering waits until it is."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyJob(TargetJob):
    """What all ranges have in common; without a `lease` no worker may copy their queues meanwhile."""

    source: Access
    lease: Lease | None = None

    @classmethod
    def of(cls, settings: Settings, options: RouteOptions) -> CopyJob:
        """The job for a worker's settings, with the whole of the route's rates.

        Raises:
            ConfigError: the file with a cluster's secret cannot be used.
        """
        return cls(
            source=Access.of(settings.source),
            target=Access.of(settings.target),
            options=options,
            memory_bytes=settings.memory_bytes,
            rate_messages=settings.rate_messages,
            rate_bytes=settings.rate_bytes,
            stall_timeout=settings.stall_timeout,
        )
