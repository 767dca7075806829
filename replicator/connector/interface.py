"""What a worker does with a connector of any kind: `Route` is the routing connector, `PluginRoute` any other."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from replicator.routing.limiter import RateLimiter
from replicator.routing.state import Phase, QueueState

__all__ = ["ConnectorLifecycle", "ConnectorPlanning", "ConnectorReporting", "Pair", "WorkerConnector"]


class ConnectorPlanning(Protocol):
    """What there is to do, and what it needs; the same on all workers.

    `tasks` are all of them, on any worker, called `connector/task`; `problems` say what cannot be done now, by
    topic.
    """

    name: str

    @property
    def tasks(self) -> frozenset[str]: ...

    @property
    def problems(self) -> dict[str, str]: ...

    @property
    def settings(self) -> object: ...

    def plan(self) -> None:
        """Reads what both clusters have now.

        Raises:
            ConfigError: what is configured cannot be done with that.
        """

    async def make_ready(self) -> None:
        """Makes what the target needs; the leader does it."""

    def knows(self, task: str) -> bool:
        """Whether everything that a task needs exists."""

    def share(self, fraction: float) -> None:
        """Keeps to that part of the connector's rate limits."""

    def with_rates(self, settings: object) -> bool:
        """Takes over `settings` if that needs no restart; whether it did."""


class ConnectorLifecycle(Protocol):
    """The tasks of a connector that run here, from their start to their end."""

    name: str

    def lacks(self, task: str) -> bool:
        """Whether part of a task of ours does not run."""

    def begin(self, tasks: Iterable[str]) -> Any:
        """What is known of those of `tasks` that do not run here yet, for `start`.

        Puts into the store that they have an owner again; that must be published before they start.
        """

    def start(self, begun: Any, running: Collection[str], group: asyncio.TaskGroup) -> None:
        """Starts what `begin` gave, except tasks that are not in `running` any more."""

    async def stop(self, tasks: Collection[str]) -> None:
        """Drains `tasks`, and puts their progress into the store."""

    async def fence(self) -> None:
        """Ends all at once."""

    def end_deleted(self) -> None:
        """Ends what is gone from the source."""

    def follow_clusters(self) -> None:
        """Reads source brokers at their masters again once those are back; checks target topics that are gone."""

    def watch(self, now: float, group: asyncio.TaskGroup) -> None:
        """Restarts what failed or makes no progress."""


class ConnectorReporting(Protocol):
    """How the tasks that run here are doing.

    `states` are the queues that are worked on; `copied` counts messages, `cut` queues or tasks that could not be
    drained in time.
    """

    @property
    def cut(self) -> int: ...

    @property
    def states(self) -> list[QueueState]: ...

    @property
    def copied(self) -> int: ...

    @property
    def limiter(self) -> RateLimiter: ...

    def phases(self) -> Mapping[str, Iterable[Phase]]:
        """The tasks, each with the phases of what it consists of."""

    async def keep(self, *, ended: bool) -> None:
        """Puts the progress of what runs here into the store; `ended` too of what has just ended.

        Where that is much, others get their turn meanwhile.
        """

    async def sample(self) -> None:
        """Finds out the lag of what stands still."""


class WorkerConnector(ConnectorPlanning, ConnectorLifecycle, ConnectorReporting, Protocol):
    """A connector as this worker takes part in it. Callers that need only a part of it use that protocol."""


class Pair(Protocol):
    """What copies one queue."""

    state: QueueState
    topic: str
    from_start: bool

    async def run(self) -> None:
        """Until it is drained, has failed by policy, or is cancelled; after that nothing sends to the queue."""
        ...

    def drain(self) -> None:
        """No more pulls; what was pulled is still sent, then `run` ends."""
        ...

    def follow(self, address: str) -> None:
        """The source broker is read at `address` from now on."""
        ...

    def recheck(self, reason: str) -> None:
        """Has the target checked before anything more is sent."""
        ...
