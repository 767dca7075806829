"""One route: what it has to copy, what the target needs for it, and the tasks of it that run here.

A task is a topic or a queue, and is called `route/topic` or `route/topic/broker/queue`. Each of its queues
is a pair of source and sink task.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress

from replicator.connector.backfill import Backfill
from replicator.connector.context import ConnectorContext
from replicator.connector.interface import Pair
from replicator.connector.lag import sample_lags
from replicator.connector.parking import Parking
from replicator.connector.permissions import refuse_missing_rights
from replicator.connector.running_pairs import RunningPairs
from replicator.connector.spark_jobs import Bulk
from replicator.connector.sync.task import SyncTask
from replicator.connector.topics import RouteTopics
from replicator.errors import StartupError, Unreachable
from replicator.observe.logging import get_logger
from replicator.plugins.route_options import route_options
from replicator.routing.audit_trail import AuditTrail
from replicator.routing.dead_letter import DeadLetters
from replicator.routing.limiter import RateLimiter, part_of
from replicator.routing.message_queue import MessageQueue
from replicator.routing.pair import QueuePair
from replicator.routing.queue_map import Queue
from replicator.routing.shared import Shared
from replicator.routing.state import Phase, QueueState
from replicator.routing.task_id import TaskId
from replicator.routing.watchdog import Watchdog
from replicator.settings import RouteSettings
from replicator.state.record import Kind

__all__ = ["Route"]

log = get_logger(__name__)


class Route:
    """The route `name` as this worker takes part in it; `late_before` is as in `RouteOptions`.

    Raises:
        ConfigError: a pattern of its settings is an invalid regular expression.
    """

    def __init__(
        self, name: str, settings: RouteSettings, context: ConnectorContext, bulk: Bulk, *, late_before: int = 0
    ) -> None:
        self.name = name
        self.settings = settings
        self.topics = RouteTopics(name, settings, context)
        self.sync = SyncTask(settings, context, self.topics)
        self.limiter = RateLimiter(settings.rate_messages, settings.rate_bytes)
        self._context = context
        #: What is parked of the source's waiting messages.
        self.parking = Parking(self.topics, settings, context)
        options = route_options(
            settings,
            context.identity,
            settle_timeout=context.settle_timeout,
            sealer=context.sealer,
            late_before=late_before,
            released=self.parking.released,
        )
        self._shared = Shared(
            source=context.source.cluster,
            target=context.target.cluster,
            options=options,
            budget=context.budget,
            limiter=self.limiter,
            dead_letters=DeadLetters.of(context.target.cluster, options, context.message_limit),
            inspector=context.inspector,
            barrier=context.barrier,
            recovering=context.recovering,
            watch=context.watch,
            auditor=context.auditor,
            message_limit=context.message_limit,
            may_send=context.may_send,
            hears_other_secret=context.hears_other_secret,
        )
        self._bulk = bulk
        self._pairs = RunningPairs(
            name,
            task_of=self.task_of,
            ready=self._ready,
            on_end=self._keep_tally,
            on_late=context.target.cluster.drop,  # or a request of theirs might still arrive, some day
        )
        self._watchdog = Watchdog(context.stall_timeout)
        #: Queues that do nothing yet, since it is not known what an earlier failover has released of them.
        self._waiting: set[MessageQueue] = set()
        self._fraction = 1.0
        self._backfill = Backfill(
            name,
            settings,
            options,
            context.source.cluster,
            bulk,
            task_of=self.task_of,
            rates=lambda: self._rates(self._fraction * self._by_spark),
            on_over=self._limit,
        )

    # Topics.

    @property
    def tasks(self) -> frozenset[str]:
        """All tasks of the route, on any worker."""
        return self.topics.tasks | ({self.sync.name} if self.sync.wanted else frozenset())

    @property
    def problems(self) -> dict[str, str]:
        """Topics that cannot be copied now, with the reason."""
        return self.topics.problems

    def plan(self) -> None:
        """Reads what both clusters have now; errors as `RouteTopics.plan`."""
        self.topics.plan()

    async def check(self, is_known: Callable[[], Awaitable[bool]]) -> None:
        """Whether all that is selected can be copied, before the first start; writes nothing.

        Later, what cannot be copied is a problem of that topic alone: it must keep no worker from going on.

        Args:
            is_known: whether the group has the connector, where our own files do not say so.

        Raises:
            StartupError: it cannot; says why and the way out.
            ClientError: a side cannot be asked.
        """
        if self._context.store.state.record(Kind.CONNECTOR, self.name) is not None:
            return
        try:
            await self._refuse()
        except StartupError as error:
            if not await is_known():
                raise
            log.warning("connector of the group has problems", connector=self.name, reason=str(error))

    async def _refuse(self) -> None:
        self.plan()
        self.topics.refuse_problems()
        await refuse_missing_rights(self.topics, self._context)
        await self.topics.refuse_other_sources()
        await self.sync.check()

    async def make_ready(self) -> None:
        """Gives the target's topics the queues that they need; the leader does it."""
        await self.topics.make_ready()

    def knows(self, task: str) -> bool:
        """Whether the queues of a task have a queue map; the metadata task needs none."""
        return task == self.sync.name or self.topics.knows(task)

    # Tasks.

    @property
    def states(self) -> list[QueueState]:
        """The queues that are copied here now."""
        return self._pairs.states

    @property
    def cut(self) -> int:
        """Queues that did not drain in time when their tasks were stopped."""
        return self._pairs.cut

    @property
    def copied(self) -> int:
        """Messages that were copied here since the route began here."""
        ended = (tally for key, tally in self._context.tallies.items() if TaskId.parse(key).connector == self.name)
        return sum(tally.counters.copied for tally in ended) + sum(state.counters.copied for state in self.states)

    def phases(self) -> dict[str, set[Phase]]:
        """The tasks that run here, each with the phases of its queues."""
        found = self._pairs.phases()
        if self.sync.running:
            found[self.sync.name] = {self.sync.phase}
        return found

    def task_of(self, key: MessageQueue) -> str:
        """The task that copies a queue."""
        by_queue = self.settings.task_granularity == "queue"
        return str(TaskId(self.name, key.topic, key.queue if by_queue else None))

    def lacks(self, task: str) -> bool:
        """Whether a task of ours has queues that do not run."""
        if task == self.sync.name:
            return not self.sync.running
        return task in self.topics.tasks and any(key not in self._pairs for key in self.topics.queues(task))

    def begin(self, tasks: Iterable[str]) -> dict[MessageQueue, QueueState]:
        """The queues of `tasks` that do not run here yet, each with what is known of it."""
        made: dict[MessageQueue, QueueState] = {}
        for task in tasks:
            for key, target in self.topics.queues(task).items():
                if key not in self._pairs:
                    made[key] = self._restored(key, target)
        self._context.store.begin(made.values())
        return made

    def _restored(self, key: MessageQueue, target: Queue) -> QueueState:
        state = QueueState(key.topic, key.queue, target, route=self.name)
        self._context.store.restore(state)
        # Without an audit, what one found before does not stand against a failover any more.
        if self.settings.audit == "off" or key.topic in self.topics.parked:
            state.audit = AuditTrail()
        return state

    def start(
        self, begun: dict[MessageQueue, QueueState], running: Collection[str], group: asyncio.TaskGroup
    ) -> None:
        """Begins to copy queues.

        Args:
            begun: what `begin` gave; those whose tasks are not in `running` any more are left alone.
        """
        if self.sync.name in running and not self.sync.running:
            self.sync.start(group)
        made = {}
        for key, state in begun.items():
            if key in self._pairs or self.task_of(key) not in running:
                continue
            if (tally := self._context.tallies.pop(state.key, None)) is not None:
                state.count_on(tally)
            if lost := state.lose_abandoned():
                gone = {"queue": str(key), "count": lost, "copied_again": state.progress.position is None}
                log.error("copies on a forgotten target broker counted as lost", connector=self.name, **gone)
            late = state.progress.position is None and self._context.store.begins_late(
                self.name, key.topic, key.queue
            )
            topic = self._context.store.target_topic(self.name, key.topic)
            made[key] = self._pair(state, topic=topic, from_start=late)
            self._pairs.start(key, made[key], group)
        parked = self.topics.parked
        live = {key: pair for key, pair in made.items() if isinstance(pair, QueuePair) and key.topic not in parked}
        self._backfill.begin(live, group)

    def _pair(self, state: QueueState, *, topic: str, from_start: bool) -> Pair:
        """What copies a queue: tasks of this process, or tasks in Spark."""
        if state.topic in self.topics.parked:
            return self.parking.pair(state, self._shared, topic=topic)
        if self.settings.engine == "live":
            return QueuePair(state, self._shared, topic=topic, from_start=from_start)
        from replicator.spark.resident.pair import ResidentPair, ResidentRoute  # noqa: PLC0415

        late_before = self._shared.options.late_before
        route = ResidentRoute(
            self.name,
            self.settings,
            late_before,
            rates=lambda: self._rates_now(self._fraction),
            released=self.parking.released,
        )
        return ResidentPair(state, self._bulk.residents, route, topic=topic, from_start=from_start)

    async def _ready(self, key: MessageQueue) -> None:
        """Returns when nothing else copies the queue, and what of it was released is known."""
        if key.topic not in self.topics.parked:
            self._waiting.add(key)
            try:
                await self.parking.ready(key.topic, key.queue)
            finally:
                self._waiting.discard(key)
        await self._backfill.over(key)

    def _keep_tally(self, state: QueueState) -> None:
        self._context.tallies[state.key] = state.tally()

    async def stop(self, tasks: Collection[str]) -> None:
        """Drains `tasks`, and keeps the states of their queues as they ended."""
        if self._source_is_given_up:
            self._limit()
        if self.sync.name in tasks:
            await self.sync.stop()
        for key in self._waiting.intersection(self._pairs.of(tasks)):
            self._pairs.abandon(key)  # it would not notice that it is to drain, and has nothing to drain
        keys = self._pairs.of(tasks)
        self._backfill.stop(keys)
        ended = await self._pairs.end(keys, self._context.drain_timeout)
        for key in keys:
            await self._backfill.over(key)
        self._save(ended)

    async def keep(self, *, ended: bool) -> None:
        """Puts the progress of the queues into the store, `ended` too that of those that have just ended.

        A slice at a time: copying goes on meanwhile.
        """
        async for states in self._pairs.in_turn():
            self._save(state for state in states if ended or state.phase is not Phase.STOPPED)

    def _save(self, states: Iterable[QueueState]) -> None:
        store = self._context.store
        if (
            store.state.get(Kind.CONNECTOR, self.name) is not None
        ):  # or a later one of that name would continue there
            store.update(states)

    async def fence(self) -> None:
        """Stops at once and gives up what is in flight; the next owner reads from the target what arrived."""
        self._backfill.stop([key for key, _ in self._pairs])
        await self._pairs.cancel()
        await self.sync.stop()

    # Jobs.

    def end_deleted(self) -> None:
        """Topics that are gone from the source, and queues of brokers that were forgotten, are copied no more."""
        there = {plan.topic: plan.queue_map for plan in self.topics.plans}
        gone = [key for key, _ in self._pairs if key.queue not in there.get(key.topic, ())]
        self._backfill.stop(gone)
        for key in gone:
            self._pairs.abandon(key)
        for topic, queues in Counter(key.topic for key in gone).items():
            log.warning(
                "queues are no longer copied, since their source broker is forgotten"
                if topic in there
                else "topic was deleted at the source, or is no longer selected: copying stops",
                connector=self.name,
                topic=topic,
                queues=queues,
            )

    def follow_clusters(self) -> None:
        """Source brokers are read at their masters again once those are back; deleted target topics are checked."""
        for _, pair in self._pairs:
            with suppress(Unreachable):  # a forgotten broker is read nowhere; its queues end with the next plan
                pair.follow(self._context.source.cluster.reader(pair.state.source.broker).address)
            if self.topics.is_gone(pair.topic, pair.state.target.broker):
                pair.recheck(f"topic {pair.topic} is gone at the target")

    def watch(self, now: float, group: asyncio.TaskGroup) -> None:
        """Restarts queues that failed or make no progress; no other is touched."""
        for key, pair in self._pairs:
            if not isinstance(pair, QueuePair) and self._pairs.runs(key):
                continue  # its Spark task watches it
            if self._pairs.is_ending(key) or not self._watchdog.wants_restart(key, pair.state, now):
                continue
            log.warning(
                "queue restarted",
                connector=self.name,
                queue=str(key),
                state=str(pair.state.phase),
                reason=pair.state.reason,
            )
            again = self._pair(pair.state, topic=pair.topic, from_start=pair.from_start)
            self._pairs.restart(key, again, group)

    async def sample(self) -> None:
        """The lag of queues that are not being pulled now."""
        await sample_lags(self._context.source.cluster, self.states)

    def share(self, fraction: float) -> None:
        """The part of the route's rate limits that is ours: that of the tasks that run here."""
        self._fraction = fraction
        self._limit()

    def _limit(self) -> None:
        self.limiter.set(*self._rates_now(self._fraction * (1 - self._by_spark)))

    @property
    def _source_is_given_up(self) -> bool:
        """Whether a failover has given it up since this route was made."""
        record = self._context.store.state.get(Kind.CONNECTOR, self.name)
        return record is not None and record.get("failed_over", 0) > self._shared.options.late_before

    @property
    def _by_spark(self) -> float:
        """The part of our queues that Spark copies now."""
        return min(1.0, self._backfill.queues / max(1, len(self._pairs)))

    def _rates_now(self, fraction: float) -> tuple[int, int]:
        if self._source_is_given_up:  # what was pulled may be nowhere else: nothing is to be held back
            return 0, 0
        return self._rates(fraction)

    def _rates(self, fraction: float) -> tuple[int, int]:
        return part_of(self.settings.rate_messages, fraction), part_of(self.settings.rate_bytes, fraction)

    def with_rates(self, settings: object) -> bool:
        """Takes over `settings` if nothing but the rates differs, which needs no restart; whether it did."""
        if not isinstance(settings, RouteSettings):
            return False
        rates = {"rate_messages": settings.rate_messages, "rate_bytes": settings.rate_bytes}
        if self.settings.model_copy(update=rates) != settings:
            return False
        self.settings = settings
        return True
