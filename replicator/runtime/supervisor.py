"""Starts, watches and ends the tasks of a worker: one pair of tasks per source queue.

Nothing is written anywhere before `prepare` has found that the route can run. Afterwards it looks for new
topics and queues on a schedule, and keeps the store up to date.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from apscheduler.schedulers.asyncio import AsyncIOScheduler

from replicator.client.brokers import max_offset
from replicator.client.cluster import Cluster, Topology
from replicator.client.topics import write_topic
from replicator.errors import BrokerRefused, ClientError, ProtocolError, ReplicatorError, StartupError
from replicator.observe.logging import get_logger
from replicator.routing.auditor import Auditor
from replicator.routing.budget import MemoryBudget
from replicator.routing.dead_letter import DeadLetters
from replicator.routing.limiter import RateLimiter
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.pair import QueuePair, Shared
from replicator.routing.plan import TopicPlan, make_plan
from replicator.routing.queue_map import Queue
from replicator.routing.recovery import last_copy
from replicator.routing.selector import TopicSelector
from replicator.routing.state import Phase, QueueState
from replicator.runtime.discovery import Discovery
from replicator.runtime.identity import identify, refuse_same_cluster
from replicator.runtime.store import Store
from replicator.settings import ClusterSettings, Settings

__all__ = ["Supervisor"]

#: Messages looked at in a target queue whose queue map was lost, to find where its copies came from.
_LOOK_BACK = 1024

#: Seconds that a running job gets to finish at the end.
_JOB_SECONDS = 5.0

log = get_logger(__name__)
Key = tuple[str, Queue]
MakeOptions = Callable[[Identity], RouteOptions]


class Supervisor:
    """All that one worker copies.

    Args:
        make_options: the route's options, once the ids of the clusters are known.
        config: the route without secrets, for `connectorConfig.json`.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        source: Cluster,
        target: Cluster,
        store: Store,
        selector: TopicSelector,
        make_options: MakeOptions,
        config: Mapping[str, Any],
    ) -> None:
        self._settings = settings
        self._source = Discovery(source, masters_only=False)
        self._target = Discovery(target, masters_only=True)
        self._store = store
        self._selector = selector
        self._make_options = make_options
        self._config = config
        self._maps = store.queue_maps()
        self._new_route = not self._maps
        self._shared: Shared | None = None
        self._pairs: dict[Key, QueuePair] = {}
        self._runs: dict[Key, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._scheduler = AsyncIOScheduler()
        self._auditor = Auditor()
        self._jobs: set[asyncio.Task[None]] = set()
        self._saved: dict[Key, tuple[int | None, Phase]] = {}
        self._save_cost = 0.0
        self._saved_at = 0.0
        self.budget = MemoryBudget(settings.memory_bytes)
        self.limiter = RateLimiter(settings.rate_messages, settings.rate_bytes)
        self.plans: Sequence[TopicPlan] = ()
        self.problems: dict[str, str] = {}
        self.refreshed_at = 0.0
        self.saved_at = 0.0

    @property
    def states(self) -> Iterable[QueueState]:
        """The queues that are copied now."""
        return [pair.state for pair in self._pairs.values()]

    @property
    def identity(self) -> Identity:
        assert self._shared is not None  # noqa: S101 - after prepare
        return self._shared.options.identity

    async def prepare(self) -> None:
        """Looks at both clusters and finds out whether the route can run; writes nothing to them.

        Raises:
            StartupError, ClientError: it cannot; says why and the way out.
        """
        source = await self._first_look(self._source, "source", self._settings.source)
        target = await self._first_look(self._target, "target", self._settings.target)
        for side, discovery in (("source", self._source), ("target", self._target)):
            for broker, failure in discovery.failures.items():
                raise StartupError(
                    f"{side} broker {broker} does not list its topics: {failure}",
                    hint="it must be reachable, and the account must be allowed to read the cluster",
                )
        refuse_same_cluster(source, target)
        if not self._target.topics:
            raise StartupError("the target has no broker with a master", hint="start one")
        identity = identify(self._settings, source, target, self._store.connector())
        options = self._make_options(identity)
        if options.subscription.kind == "SQL92":
            for broker, config in self._source.configs.items():
                if not config.property_filter:
                    raise StartupError(
                        f"sql = {self._settings.sql!r}: source broker {broker} does not filter by SQL92",
                        hint="set enablePropertyFilter=true there, or use tags",
                    )
        self._shared = Shared(
            source=self._source.cluster,
            target=self._target.cluster,
            options=options,
            budget=self.budget,
            limiter=self.limiter,
            dead_letters=DeadLetters(
                self._target.cluster, options.dead_letter_topic, cluster=identity.source, limit=self._limit
            ),
            auditor=self._auditor,
            message_limit=self._limit,
        )
        await self._find_lost_maps()
        plans = self._plan()
        refused = [f"topic {plan.topic} cannot be copied: {plan.problem}" for plan in plans if plan.problem]
        if refused:
            raise StartupError("\n".join(refused), hint="leave them out with --exclude-topics")
        if not plans:
            log.warning("no topic of the source is selected yet", topics=self._settings.topics)
        self._store.save_connector({**self._config, "source_id": identity.source, "target_id": identity.target})

    async def _first_look(self, discovery: Discovery, side: str, settings: ClusterSettings) -> Topology:
        try:
            topology, _ = await discovery.refresh()
        except ReplicatorError as error:
            namesrv = ",".join(settings.namesrv)
            raise StartupError(
                f"{side}.namesrv = {namesrv!r}: {error.message}",
                hint=error.hint or "check the address, that the name server runs, and TLS",
            ) from None
        return topology

    async def run(self, stop: asyncio.Event) -> None:
        """Copies until `stop` is set, then drains.

        Raises:
            StartupError, ClientError: the target's topics could not be made.
        """
        for plan in self._plan():
            try:
                await self._apply(plan)
            except ClientError as error:
                refused = isinstance(error, BrokerRefused)
                raise StartupError(
                    f"topic {plan.target_topic} cannot be made at the target: {error}",
                    hint="let the target's account create topics" if refused else "it must be reachable",
                ) from None
        async with asyncio.TaskGroup() as group:
            self._group = group
            auditing = group.create_task(self._auditor.run(), name="auditor")
            self._start_pairs()
            settings = self._settings
            self._every(settings.refresh_interval, self.refresh)
            self._every(settings.save_interval, self.save)
            self._every(settings.refresh_interval, self.sample)
            self._scheduler.start()
            await stop.wait()
            self._scheduler.pause()
            await self._drain()
            await self._end_jobs()
            auditing.cancel()
        await self.save(force=True)

    def _every(self, seconds: float, job: Callable[[], Awaitable[None]]) -> None:
        async def once() -> None:
            task = asyncio.current_task()
            assert task is not None  # noqa: S101 - the scheduler runs coroutines as tasks
            self._jobs.add(task)
            try:
                await job()
            finally:
                self._jobs.discard(task)

        self._scheduler.add_job(
            once, "interval", seconds=seconds, max_instances=1, coalesce=True, misfire_grace_time=None
        )

    async def _end_jobs(self) -> None:
        """Lets the jobs that run now finish; the scheduler itself would cut them off."""
        if self._jobs:
            await asyncio.wait(self._jobs, timeout=_JOB_SECONDS)
        self._scheduler.shutdown(wait=False)

    async def _drain(self) -> None:
        for pair in self._pairs.values():
            pair.drain()
        runs = list(self._runs.values())
        if runs:
            _, late = await asyncio.wait(runs, timeout=self._settings.drain_timeout)
            for task in late:
                task.cancel()
            if late:
                log.warning(
                    "not all could be drained in time; the rest is copied at the next start", queues=len(late)
                )

    # Plans.

    def _plan(self) -> list[TopicPlan]:
        plans = make_plan(
            self._source.topics,
            self._target.topics,
            self._maps,
            selector=self._selector,
            template=self._settings.rename,
            identity=self.identity,
            system=[*self._system_names()],
        )
        self.plans = plans
        return plans

    def _system_names(self) -> Iterable[str]:
        yield from self._source.topics
        yield self._source.cluster_name

    async def _apply(self, plan: TopicPlan) -> None:
        """Makes the target ready for one topic, then remembers its map."""
        if plan.problem:
            self.problems[plan.topic] = plan.problem
            return
        for broker, topic in plan.writes:
            await write_topic(self._target.cluster.writer(broker), topic)
            log.info("topic made ready", topic=topic.name, broker=broker, queues=topic.queues)
        self.problems.pop(plan.topic, None)
        if self._maps.get(plan.topic) != plan.queue_map:
            self._maps[plan.topic] = dict(plan.queue_map)
            self._store.save_queue_map(plan.topic, plan.target_topic, plan.queue_map)

    async def _find_lost_maps(self) -> None:
        """Queue maps that the store does not have, read from the copies in the target's queues."""
        for plan in self._plan():
            if plan.topic in self._maps or plan.problem:
                continue
            found: dict[Queue, Queue] = {}
            for broker, topics in self._target.topics.items():
                config = topics.get(plan.target_topic)
                for queue_id in range(config.queues if config else 0):
                    master = self._target.cluster.master(broker)
                    copy = await last_copy(master, plan.target_topic, queue_id, look_back=_LOOK_BACK)
                    if copy is not None and copy.cluster == self.identity.source:
                        found[Queue(copy.broker, copy.queue_id)] = Queue(broker, queue_id)
            if found:
                self._maps[plan.topic] = found
                log.info("queue map found in the target", topic=plan.topic, queues=len(found))

    def _limit(self, broker: str) -> int:
        config = self._target.configs.get(broker)
        return config.max_message_size if config else 4 * 1024 * 1024

    # Pairs.

    def _start_pairs(self) -> None:
        for plan in self.plans:
            if plan.topic in self.problems:
                continue
            for source, target in plan.queue_map.items():
                key = (plan.topic, source)
                if key not in self._pairs:
                    self._start_pair(key, target, plan.target_topic)
        self._new_route = False

    def _start_pair(self, key: Key, target: Queue, target_topic: str) -> None:
        assert self._shared is not None  # noqa: S101 - after prepare
        assert self._group is not None  # noqa: S101 - while running
        state = QueueState(key[0], key[1], target)
        seen = self._store.restore(state)
        pair = QueuePair(state, self._shared, topic=target_topic, from_start=not seen and not self._new_route)
        self._pairs[key] = pair
        name = f"{key[0]} {key[1].broker}/{key[1].queue_id}"
        self._runs[key] = self._group.create_task(self._guard(pair), name=name)

    async def _guard(self, pair: QueuePair) -> None:
        """A bug in one queue's tasks ends that queue, not the worker."""
        try:
            await pair.run()
        except Exception as error:
            pair.state.set_phase(Phase.FAILED, f"{type(error).__name__}: {error}")
            log.exception("task failed", topic=pair.state.topic, queue=str(pair.state.source))

    def _end_pairs_of_deleted_topics(self) -> None:
        there = {plan.topic for plan in self.plans}
        for key in [key for key in self._pairs if key[0] not in there]:
            pair, run = self._pairs.pop(key), self._runs.pop(key)
            pair.drain()
            run.cancel()
            log.warning("topic is gone from the source", topic=key[0], queue=str(key[1]))

    # Jobs.

    async def refresh(self) -> None:
        """Looks for new topics and queues, and for masters that have moved."""
        try:
            _, source_changed = await self._source.refresh()
            _, target_changed = await self._target.refresh()
            if source_changed or target_changed or self.problems:
                for plan in self._plan():
                    await self._try_apply(plan)
                self._end_pairs_of_deleted_topics()
                self._start_pairs()
        except (ReplicatorError, OSError) as error:
            log.warning("refresh failed", reason=str(error))
            return
        self._follow_masters()
        self.refreshed_at = time.time()

    async def _try_apply(self, plan: TopicPlan) -> None:
        try:
            await self._apply(plan)
        except (ClientError, ProtocolError) as error:
            self.problems[plan.topic] = str(error)
            log.warning("topic cannot be made ready", topic=plan.topic, reason=str(error))

    def _follow_masters(self) -> None:
        for pair in self._pairs.values():
            pair.follow(self._source.cluster.reader(pair.state.source.broker).address)

    async def save(self, *, force: bool = False) -> None:
        """Writes what has changed; where that takes long it is done less often."""
        started = time.monotonic()
        if not force and started - self._saved_at < 20 * self._save_cost:
            return
        changed = []
        for key, pair in self._pairs.items():
            state = pair.state
            mark = (state.position, state.phase)
            if force or self._saved.get(key) != mark:
                self._saved[key] = mark
                changed.append(state)
        if changed:
            self._store.update(changed)
            try:
                await asyncio.to_thread(self._store.flush)
            except OSError as error:
                self._saved.clear()
                log.error("state cannot be saved", path=str(self._store.directory), reason=str(error))
                return
        self.saved_at = time.time()
        self._saved_at = time.monotonic()
        self._save_cost = self._saved_at - started

    async def sample(self) -> None:
        """The lag of queues that are not being pulled now."""
        for pair in list(self._pairs.values()):
            state = pair.state
            if state.phase in (Phase.RUNNING, Phase.STARTING, Phase.STOPPED):
                continue
            try:
                reader = self._source.cluster.reader(state.source.broker)
                state.max_offset = await max_offset(reader, state.topic, state.source.queue_id)
            except ClientError:
                continue  # the queue's own reason says it already
