"""A connector of another kind than routing: the tasks that its plugin names, as far as they run here."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from functools import partial

from replicator.client.topics import TopicConfig, write_topic
from replicator.connector.context import ConnectorContext
from replicator.connector.plugin.sink import PluginSinkTask
from replicator.connector.plugin.source import PluginSourceTask, target_queue
from replicator.connector.plugin.task import PluginTask
from replicator.errors import ClientError, ProtocolError, Unreachable
from replicator.observe.logging import get_logger
from replicator.plugins.interface import SourceConnector
from replicator.plugins.registry import PluginConfig
from replicator.routing.limiter import RateLimiter
from replicator.routing.state import Phase, QueueState
from replicator.routing.task_id import TaskId
from replicator.state.record import Kind

__all__ = ["PluginRoute"]

log = get_logger(__name__)


class PluginRoute:
    """The connector `name` as this worker takes part in it: a `WorkerConnector`.

    The position of a task is a record of the shared state, under the task's name.
    """

    def __init__(self, name: str, settings: PluginConfig, context: ConnectorContext) -> None:
        self.name = name
        self.settings = settings
        self.problems: dict[str, str] = {}
        self._context = context
        self._topics = {str(TaskId(name, task)): topics for task, topics in settings.tasks.items()}
        self.tasks = frozenset(self._topics)
        self._running: dict[str, PluginTask] = {}
        self._runs: dict[str, asyncio.Task[None]] = {}
        self._copied_before = 0
        self._made = context.store.made_of(name)
        self.cut = 0
        self.limiter = RateLimiter()  # there are no limits

    @property
    def _is_source(self) -> bool:
        return isinstance(self.settings.plugin, SourceConnector)

    @property
    def states(self) -> list[QueueState]:
        """What the tasks here work on: for a source its topics, for a sink the queues that it reads."""
        return [state for task in self._running.values() for state in task.states]

    @property
    def copied(self) -> int:
        """Messages that went through here since the connector began here."""
        return self._copied_before + sum(task.copied for task in self._running.values())

    def phases(self) -> dict[str, set[Phase]]:
        """The tasks that run here, each with its phase and those of its queues."""
        return {name: {task.phase, *(state.phase for state in task.states)} for name, task in self._running.items()}

    # What is needed.

    def plan(self) -> None:
        """Looks whether the topics of a sink are there."""
        if not self._is_source:
            there = {topic for topics in self._context.source.topics.values() for topic in topics}
            wanted = {topic for topics in self._topics.values() for topic in topics}
            self.problems = dict.fromkeys(sorted(wanted - there), "the source does not have this topic now")

    async def make_ready(self) -> None:
        """Makes the topics that a source writes to, where no target broker has them; the leader does it.

        Raises:
            ClientError: the target could not be asked at all.
        """
        target = self._context.target
        for topic in {topic for topics in self._topics.values() for topic in topics} if self._is_source else ():
            if target_queue(self._context, topic) is not None:
                self.problems.pop(topic, None)
                continue
            if not target.topics:
                raise Unreachable(",".join(target.cluster.addresses), "no target broker has a master now")
            broker = min(target.topics)
            try:
                config = TopicConfig(name=topic, read_queues=1, write_queues=1)
                await write_topic(target.cluster.writer(broker), config)
            except (ClientError, ProtocolError) as error:
                self.problems[topic] = str(error)
                log.warning(
                    "topic cannot be prepared at the target", connector=self.name, topic=topic, reason=str(error)
                )
                continue
            self.problems.pop(topic, None)
            log.info("topic prepared at the target", connector=self.name, topic=topic, broker=broker, queues=1)

    def knows(self, task: str) -> bool:
        """Whether the topics that a task writes to are there."""
        topics = self._topics.get(task, ()) if self._is_source else ()
        return task in self.tasks and all(target_queue(self._context, topic) for topic in topics)

    # Tasks.

    def lacks(self, task: str) -> bool:
        """Whether a task of ours does not run."""
        return task in self.tasks and task not in self._running

    def begin(self, tasks: Iterable[str]) -> frozenset[str]:
        """Those of `tasks` that do not run here yet."""
        return frozenset(task for task in tasks if self.lacks(task))

    def start(self, begun: frozenset[str], running: Collection[str], group: asyncio.TaskGroup) -> None:
        """Starts what `begin` gave, except tasks that are not in `running` any more, at their last position."""
        for name in sorted(begun):
            if self.lacks(name) and name in running:
                self._running[name] = self._make(name)
                self._runs[name] = group.create_task(self._running[name].run(), name=name)

    def _make(self, name: str) -> PluginTask:
        record, _ = self._context.store.progress(self.name, name)
        position = None if record is None or not isinstance(record["position"], dict) else record["position"]
        plugin, config, short = self.settings.plugin, self.settings.config, TaskId.parse(name).task
        topics = self._topics[name]
        if isinstance(plugin, SourceConnector):
            make = partial(plugin.task, config, short)
            return PluginSourceTask(name, position, make, self._context, plugin=self.settings.name, topics=topics)
        read = partial(plugin.task, config, short)
        return PluginSinkTask(name, position, read, self._context, plugin=self.settings.name, topics=topics)

    async def stop(self, tasks: Collection[str]) -> None:
        """Drains `tasks`, and keeps how far they came."""
        names = [name for name in tasks if name in self._running]
        for task in await self._end(names, self._context.drain_timeout):
            self._keep(task)

    async def fence(self) -> None:
        """Ends all at once; others may know better by now how far the tasks are."""
        for run in self._runs.values():
            run.cancel()
        await self._end(list(self._running), 0.0)

    async def _end(self, names: list[str], seconds: float) -> list[PluginTask]:
        ending = {name: self._running[name] for name in names}
        for task in ending.values():
            task.drain()
        runs = [self._runs[name] for name in names]
        if runs:
            _, late = await asyncio.wait(runs, timeout=seconds)
            for run in late:
                run.cancel()
            self.cut += len(late)
            if late:
                log.warning("not all messages were drained in time; the rest is copied again", tasks=len(late))
                await asyncio.wait(late)
        for name, task in ending.items():
            if self._running.get(name) is task:  # it was not ended meanwhile
                del self._running[name], self._runs[name]
                self._copied_before += task.copied
        return list(ending.values())

    async def keep(self, *, ended: bool) -> None:
        """Puts the positions of the tasks into the store."""
        for task in self._running.values():
            if ended or task.phase is not Phase.STOPPED:
                self._keep(task)

    def _keep(self, task: PluginTask) -> None:
        store = self._context.store
        is_there = store.state.get(Kind.CONNECTOR, self.name) is not None
        if task.position is None or not is_there or store.made_of(self.name) != self._made:
            return  # one made later under the name of a deleted one starts over
        value = {"position": dict(task.position), **({"made": self._made} if self._made else {})}
        if value != store.state.get(Kind.POSITION, task.name):
            store.put(Kind.POSITION, task.name, value)

    # What only routes have: queue maps, a watchdog, rates.

    def end_deleted(self) -> None:
        """Nothing: tasks wait for topics that are gone."""

    def follow_clusters(self) -> None:
        """Nothing: every pull asks where the queue is to be read."""

    def watch(self, now: float, group: asyncio.TaskGroup) -> None:
        """Nothing: a task retries on its own."""

    async def sample(self) -> None:
        """Nothing: a sink's lag is known from its pulls, a source's is not known."""

    def share(self, fraction: float) -> None:
        """Nothing: there are no limits."""

    def with_rates(self, settings: object) -> bool:
        """Never: every change restarts the tasks."""
        return False
