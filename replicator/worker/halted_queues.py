"""Queues that nobody copies now: their connector is paused or stopped, or no worker has their task.

One worker looks at them for all, so that they keep their lag, their series and their place in every list.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from replicator.aio.bounded import bounded
from replicator.client.brokers import max_offset, min_offset
from replicator.client.pull import pull
from replicator.client.unresponsive import UnresponsiveBrokers
from replicator.connector.context import ConnectorContext
from replicator.connector.route import Route
from replicator.errors import ClientError, ProtocolError
from replicator.group.coordinator import Coordinator
from replicator.routing.message_queue import MessageQueue
from replicator.routing.queue_map import Queue
from replicator.routing.state import Phase, QueueState
from replicator.state.connector_configs import Connector, Connectors, State
from replicator.state.record import Kind
from replicator.worker.connectors import Routes
from replicator.worker.halted_topics import Told, still_to_tell

__all__ = ["HaltedQueues"]

#: Concurrent requests.
_AT_ONCE: Final = 64
#: The pause after a look is at least this many times as long as the look took.
_PAUSE: Final = 10
_REASONS: Final = {
    Phase.PAUSED: "its connector is paused",
    Phase.STOPPED: "its connector is stopped",
    Phase.UNASSIGNED: "no worker runs its task",
}


class _Halted(NamedTuple):
    route: Route
    task: str
    target: Queue
    phase: Phase


class HaltedQueues:
    """The halted queues of all routes, as `refresh` found them last; none where another worker looked then.

    Args:
        skews: by source broker, the seconds that its clock is ahead of ours.
    """

    def __init__(
        self,
        connectors: Connectors,
        routes: Routes,
        coordinator: Coordinator,
        context: ConnectorContext,
        skews: Mapping[str, float],
    ) -> None:
        self._connectors = connectors
        self._routes = routes
        self._coordinator = coordinator
        self._context = context
        self._skews = skews
        self._states: dict[tuple[str, MessageQueue], QueueState] = {}
        self._tasks: dict[tuple[str, MessageQueue], str] = {}
        self._not_before = 0.0
        self._looking = asyncio.Lock()
        #: Connectors that did not run at the last look, and whether tasks of them had not ended yet.
        self._halted_connectors: dict[str, State] = {}
        self._ending = False

    @property
    def states(self) -> list[QueueState]:
        """Without those whose tasks have started since, on any worker: who runs them tells of them."""
        running = self._running()
        return [state for key, state in self._states.items() if self._tasks[key] not in running]

    def still_to_tell(self, before: Iterable[Told], now: Iterable[Told]) -> list[Told]:
        """What this worker goes on to tell of topics beside `now`, as `before`, until one worker tells of all."""
        store, others = self._context.store, self._coordinator.membership.others
        statuses = (status for name in others if (status := store.state.get(Kind.STATUS, name)) is not None)
        theirs = (topic for status in statuses for topic in status["topics"])
        return still_to_tell(before, now, theirs, store, self._connectors.all())

    def _running(self) -> set[str]:
        coordinator = self._coordinator
        others = coordinator.membership.others.values()
        return {*coordinator.running, *(task for other in others for task in other.tasks)}

    async def follow(self) -> None:
        """Looks now where a connector was paused or stopped since, or its tasks have not ended yet."""
        if self._ending or self._connectors_that_do_not_run() != self._halted_connectors:
            await self.refresh()

    async def refresh(self) -> None:
        """Finds out which queues are halted, and asks the source for their lag."""
        async with self._looking:
            await self._refresh()

    async def _refresh(self) -> None:
        self._halted_connectors, self._ending = self._connectors_that_do_not_run(), False
        if not self._coordinator.speaks_for_all():
            self._states.clear()
            return
        found = dict(self._halted())
        states = {key: self._states.get(key) or _new(key, halted) for key, halted in found.items()}
        for key, halted in found.items():
            self._restore(states[key], halted)
        began = time.monotonic()
        in_turn = began >= self._not_before
        silence = UnresponsiveBrokers({})
        asked = [(key, state) for key, state in states.items() if in_turn or key not in self._states]
        await bounded(partial(self._measure, silence, found), asked, at_once=_AT_ONCE)
        if in_turn:
            self._not_before = time.monotonic() + _PAUSE * (time.monotonic() - began)
        self._states = states  # not before their lag is known
        self._tasks = {key: halted.task for key, halted in found.items()}

    def _connectors_that_do_not_run(self) -> dict[str, State]:
        states = {name: each.state for name, each in self._connectors.all().items()}
        return {name: state for name, state in states.items() if state is not State.RUNNING}

    def _halted(self) -> Iterator[tuple[tuple[str, MessageQueue], _Halted]]:
        owners, running = self._coordinator.assignment.owners, self._running()
        for name, connector in self._connectors.all().items():
            route = self._routes.get(name)
            if not isinstance(route, Route):
                continue
            for plan in route.topics.plans:
                for source, target in plan.queue_map.items():
                    queue = MessageQueue(plan.topic, *source)
                    task = route.task_of(queue)
                    phase = _phase(connector, owned=task in owners)
                    self._ending |= phase is not None and task in running
                    if phase is not None and task not in running:
                        yield (name, queue), _Halted(route, task, target, phase)

    def _restore(self, state: QueueState, halted: _Halted) -> None:
        position = state.progress.position
        self._context.store.restore(state)
        if state.progress.position != position:
            state.progress.head_timestamp = 0
        state.progress.skew = self._skews.get(state.source.broker, 0.0)
        state.set_phase(halted.phase, _REASONS[halted.phase])

    async def _measure(
        self,
        silence: UnresponsiveBrokers,
        found: Mapping[tuple[str, MessageQueue], _Halted],
        item: tuple[tuple[str, MessageQueue], QueueState],
    ) -> None:
        key, state = item
        try:
            await silence.ask(key[1].broker, partial(self._ask, state, found[key].route))
        except (ClientError, ProtocolError) as error:
            is_known = "that of before" if state.progress.max_offset else "not known"
            state.set_phase(state.phase, f"{state.reason}; its lag is {is_known}: {error}")

    async def _ask(self, state: QueueState, route: Route) -> None:
        progress, place = state.progress, (state.topic, state.source.queue_id)
        reader = self._context.source.cluster.reader(state.source.broker)
        progress.max_offset = await max_offset(reader, *place)
        if progress.position is None and route.settings.start_from == "earliest":
            progress.position = await min_offset(reader, *place)
        if progress.lag and not progress.head_timestamp:
            assert progress.position is not None  # noqa: S101 - without one there is no lag
            oldest = await pull(reader, *place, progress.position, count=1)
            if oldest.messages:
                progress.head_timestamp = oldest.messages[0].store_timestamp


def _new(key: tuple[str, MessageQueue], halted: _Halted) -> QueueState:
    name, queue = key
    return QueueState(queue.topic, queue.queue, halted.target, route=name)


def _phase(connector: Connector, *, owned: bool) -> Phase | None:
    """That of the queues of a task which does not run; None while it is about to."""
    if connector.state is State.PAUSED:
        return Phase.PAUSED
    if connector.state is State.STOPPED:
        return Phase.STOPPED
    return None if owned else Phase.UNASSIGNED
