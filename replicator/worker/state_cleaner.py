"""Removes shared state that is no longer needed: of topics deleted at the source, and of workers that have left."""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple

from replicator.client.discovery import Discovery
from replicator.group.coordinator import Coordinator
from replicator.observe.logging import get_logger
from replicator.routing.queue_map import Queue
from replicator.routing.task_id import TaskId
from replicator.state.known_brokers import forgotten
from replicator.state.record import Kind
from replicator.state.store import Store

__all__ = ["Cleaner"]

#: Seconds that something must have been gone without a break before it is forgotten.
PATIENCE: Final = 600.0
#: Looks in that time.
_POLLS: Final = 20

log = get_logger(__name__)


class _Gone(NamedTuple):
    """What is not there now: a `TASK` record's topic, or a `STATUS` record's worker."""

    kind: Kind
    key: str


class Cleaner:
    """Removes the state of what no longer exists: only the leader does it, waiting from when it became leader.

    Args:
        patience: seconds.
    """

    def __init__(
        self, store: Store, coordinator: Coordinator, source: Discovery, *, patience: float | None = None
    ) -> None:
        self._store = store
        self._coordinator = coordinator
        self._source = source
        self._patience = PATIENCE if patience is None else patience
        self._since: dict[_Gone, float] = {}
        self._checked = -inf

    def clean(self, now: float) -> None:
        """Looks, now and then, and forgets what has been gone for long enough."""
        if not self._coordinator.leads():
            self._since.clear()
            return
        if now - self._checked < self._patience / _POLLS:
            return
        self._checked = now
        gone = {*self._topics(), *self._workers()}
        self._since = {each: self._since.get(each, now) for each in gone}
        for each, since in list(self._since.items()):
            if now - since >= self._patience:
                del self._since[each]
                self._forget(each)

    def _workers(self) -> set[_Gone]:
        alive = {self._coordinator.me, *self._coordinator.membership.others}
        return {_Gone(Kind.STATUS, name) for name in self._store.state.items(Kind.STATUS) if name not in alive}

    def _topics(self) -> set[_Gone]:
        """The queue maps of topics that no source broker has, each of which has just said so itself."""
        source = self._source
        if not source.cluster.brokers().keys() <= source.complete:
            return set()
        there = {topic for topics in source.topics.values() for topic in topics}
        maps, lost = self._store.state.items(Kind.TASK), forgotten(self._store.state, "source")
        gone: set[_Gone] = set()
        left: set[str] = set()
        for key, value in maps.items():
            connector, topic, _ = TaskId.parse(key)
            brokers = {Queue.parse(queue).broker for queue in value["queues"]} - lost
            if topic in there or not brokers <= source.complete:
                left.add(connector)
            else:
                gone.add(_Gone(Kind.TASK, key))
        if not gone:
            return gone
        busy = self._busy()
        # A connector without any map would take the next topic for one that was there when it began.
        return {each for each in gone if each.key not in busy and TaskId.parse(each.key).connector in left}

    def _busy(self) -> set[str]:
        """`connector/topic` of all tasks that some worker owns or runs."""
        coordinator = self._coordinator
        tasks = {*coordinator.assignment.owners, *coordinator.running}
        for other in coordinator.membership.others.values():
            tasks |= {*other.releasing, *other.info.get("tasks", {})}
        return {str(TaskId.parse(task).whole) for task in tasks}

    def _forget(self, gone: _Gone) -> None:
        state = self._store.state
        if gone.kind is Kind.TASK:
            log.info("topic was deleted at the source: its state is removed", task=gone.key)
            for kind in (Kind.POSITION, Kind.OFFSET):
                for key in state.items(kind):
                    if TaskId.parse(key).whole == TaskId.parse(gone.key):
                        self._store.put(kind, key, None)
        self._store.put(gone.kind, gone.key, None)
