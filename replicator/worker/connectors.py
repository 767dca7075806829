"""The routes that the group's connectors ask for, as this worker takes part in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from replicator.connector.context import ConnectorContext
from replicator.connector.interface import ConnectorPlanning, WorkerConnector
from replicator.connector.plugin.connector import PluginRoute
from replicator.connector.route import Route
from replicator.connector.spark_jobs import Bulk
from replicator.errors import ConfigError, ReplicatorError
from replicator.group.coordinator import Coordinator
from replicator.observe.logging import get_logger
from replicator.plugins.registry import PluginConfig
from replicator.routing.state import QueueState
from replicator.routing.task_id import TaskId
from replicator.settings import RouteSettings
from replicator.state.connector_configs import Connector, Connectors, State
from replicator.state.record import Kind
from replicator.worker.rate_shares import rate_shares
from replicator.worker.rate_uses import RateUses

__all__ = ["Routes"]

log = get_logger(__name__)


def _make(connector: Connector, context: ConnectorContext, bulk: Bulk) -> WorkerConnector:
    if isinstance(connector.settings, PluginConfig):
        return PluginRoute(connector.name, connector.settings, context)
    return Route(connector.name, connector.settings, context, bulk, late_before=connector.failed_over)


class Routes:
    """Follows the connectors: makes, changes and ends routes once none of their old tasks run here."""

    def __init__(
        self, connectors: Connectors, coordinator: Coordinator, context: ConnectorContext, bulk: Bulk
    ) -> None:
        self._connectors = connectors
        self._coordinator = coordinator
        self._context = context
        self._bulk = bulk
        self._routes: dict[str, WorkerConnector] = {}
        self._epochs: dict[str, int] = {}
        #: Of tasks that run here, how often each was restarted before it started.
        self._task_epochs: dict[str, int] = {}
        #: Of routes that were here before, for a counter must not shrink.
        self._throttled_before = 0.0
        self._rate_uses = RateUses()

    def __iter__(self) -> Iterator[WorkerConnector]:
        return iter(list(self._routes.values()))

    def get(self, name: str) -> WorkerConnector | None:
        return self._routes.get(name)

    @property
    def states(self) -> list[QueueState]:
        """The queues that are copied here now."""
        return [state for route in self._routes.values() for state in route.states]

    @property
    def copied(self) -> int:
        """Messages that this worker has copied since it began."""
        return sum(route.copied for route in self._routes.values())

    @property
    def throttled_seconds(self) -> float:
        """How long batches have waited for the rate limits since this worker began."""
        return self._throttled_before + sum(route.limiter.throttled_seconds for route in self._routes.values())

    @property
    def cut(self) -> int:
        """How many queues and tasks this worker could not drain in time."""
        return sum(route.cut for route in self._routes.values())

    @property
    def problems(self) -> dict[str, str]:
        """Topics that cannot be copied now, with the reason."""
        return {topic: reason for route in self._routes.values() for topic, reason in route.problems.items()}

    @property
    def connector_problems(self) -> dict[str, dict[str, str]]:
        """The same by connector, of those that have any: what one cannot copy another one may."""
        return {name: dict(route.problems) for name, route in self._routes.items() if route.problems}

    async def keep(self, *, ended: bool) -> None:
        """Puts the progress of all that runs here into the store; others get their turn meanwhile."""
        for route in list(self._routes.values()):
            await route.keep(ended=ended)

    def tasks(self) -> set[str]:
        """All tasks of the group."""
        return {
            task
            for name, connector in self._connectors.all().items()
            if connector.state is not State.STOPPED and name in self._routes
            for task in self._routes[name].tasks
        }

    def wanted(self) -> Callable[[str], bool]:
        """Whether a task of ours is to run now: its connector runs as configured, its queues have a map.

        A task that was restarted meanwhile is not wanted until it has stopped.
        """
        running = {
            name: (self._routes[name], connector.task_epochs)
            for name, connector in self._connectors.all().items()
            if self._runs(connector)
        }
        busy = self._coordinator.running
        self._task_epochs = {task: epoch for task, epoch in self._task_epochs.items() if task in busy}

        def is_wanted(task: str) -> bool:
            name = TaskId.parse(task)
            if name.connector not in running:
                return False
            route, epochs = running[name.connector]
            epoch = epochs.get(name.task, 0)
            return route.knows(task) and self._task_epochs.setdefault(task, epoch) == epoch

        return is_wanted

    def _runs(self, connector: Connector) -> bool:
        return connector.state is State.RUNNING and self._is_current(connector)

    def _is_current(self, connector: Connector) -> bool:
        route = self._routes.get(connector.name)
        return (
            route is not None
            and self._epochs[connector.name] == connector.epoch
            and route.settings == connector.settings
        )

    def why_unwanted(self, task: str) -> str:
        """Why a task of ours is not to run, where `wanted` says so."""
        connector = self._connectors.all().get(TaskId.parse(task).connector)
        if connector is None:
            return "its connector was deleted"
        if connector.state is not State.RUNNING:
            return f"its connector is {connector.state.value.lower()}"
        if not self._is_current(connector):
            return "its connector has a new configuration or was restarted"
        if self._task_epochs.get(task, 0) != connector.task_epochs.get(TaskId.parse(task).task, 0):
            return "it was restarted"
        return "its queues have no queue map"

    def reconcile(self) -> bool:
        """Makes the routes those that the connectors ask for, as far as their tasks let it; whether any is new."""
        wanted: Mapping[str, Connector] = self._connectors.all()
        busy = {TaskId.parse(task).connector for task in self._coordinator.running}
        new = False
        for name in {*wanted, *self._routes}:
            connector = wanted.get(name)
            if connector is not None and (self._is_current(connector) or self._only_rates(connector)):
                continue
            if name in busy:
                continue
            if (before := self._routes.pop(name, None)) is not None:
                self._throttled_before += before.limiter.throttled_seconds
            self._forget_tallies(name)
            if connector is None:
                continue
            self._routes[name] = _make(connector, self._context, self._bulk)
            self._epochs[name] = connector.epoch
            self._plan(self._routes[name])
            new = True
        self.share_rates()
        return new

    def _forget_tallies(self, name: str) -> None:
        """Nobody counts on from those of a connector that was deleted, whatever is called like it now."""
        made, tallies = self._context.store.made_of(name), self._context.tallies
        is_there = self._connectors.all().get(name) is not None
        for key, tally in list(tallies.items()):
            if TaskId.parse(key).connector == name and not (is_there and tally.made == made):
                del tallies[key]

    def _only_rates(self, connector: Connector) -> bool:
        route = self._routes.get(connector.name)
        same_epoch = self._epochs.get(connector.name) == connector.epoch
        return route is not None and same_epoch and route.with_rates(connector.settings)

    def plan(self) -> None:
        """Looks again at what both clusters have."""
        for route in self._routes.values():
            self._plan(route)
            route.end_deleted()

    def _plan(self, route: ConnectorPlanning) -> None:
        try:
            route.plan()
        except ConfigError as error:
            if route.problems.get("") != str(error):
                log.error("connector cannot be planned", connector=route.name, reason=str(error))
            route.problems[""] = str(error)

    def share_rates(self) -> None:
        """Each worker keeps to its part of a route's limits: that of its tasks, and what others spare."""
        told = self._context.store.state.items(Kind.STATUS)
        shares = rate_shares(
            self._coordinator.assignment.owners,
            self._coordinator.running,
            me=self._coordinator.me,
            used={worker: status.get("rates", {}) for worker, status in told.items()},
            limits={
                name: (connector.settings.rate_messages, connector.settings.rate_bytes)
                for name, connector in self._connectors.all().items()
                if isinstance(connector.settings, RouteSettings)
            },
        )
        for name, route in self._routes.items():
            route.share(shares.get(name, 1.0))

    def rate_uses(self) -> dict[str, dict[str, Any]]:
        """What was used here of the connectors' rate limits since the last call, as `Status` has it."""
        return self._rate_uses.since_last({name: route.limiter for name, route in self._routes.items()})

    async def make_ready(self) -> bool:
        """The leader makes the target ready for all running routes; False when it has to try again."""
        done = True
        for name in self._connectors.all():
            connector = self._connectors.all().get(name)  # as it is now: those before it may have taken minutes
            if connector is None or name not in self._routes or connector.state is not State.RUNNING:
                continue
            if not self._is_current(connector):
                done = False
                continue
            try:
                await self._routes[name].make_ready()
            except (ReplicatorError, OSError) as error:
                done = False
                log.warning("target cannot be prepared", connector=name, reason=str(error))
        return done
