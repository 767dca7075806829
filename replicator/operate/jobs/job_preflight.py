"""Checks of `backfill` and `verify` before Spark starts: both clusters, the queue maps, the ends of queues."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Set
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from replicator.aio.bounded import bounded
from replicator.client.brokers import max_offset, min_offset, offset_at
from replicator.client.cluster import Cluster
from replicator.client.discovery import Discovery
from replicator.client.pull import pull
from replicator.connector.context import ConnectorContext, read_clusters
from replicator.connector.permissions import refuse_missing_rights
from replicator.connector.topics import RouteTopics
from replicator.errors import ClientError, ConfigError, StartupError
from replicator.group.freshness import Freshness
from replicator.group.job_claim import JobClaim, claimed, copies_topics, jobs_of, topics_of
from replicator.group.membership import MemberState
from replicator.group.signature import Signer
from replicator.observe.audit import AUDIT, Audit
from replicator.plugins.route_options import route_options
from replicator.protocol.message import StoredMessage
from replicator.ranges.copy_job import CopyJob, Range
from replicator.routing.budget import MemoryBudget
from replicator.routing.foreign_writes import ForeignWriteInspector
from replicator.routing.message_queue import MessageQueue
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.plan import TopicPlan
from replicator.routing.queue_map import Queue
from replicator.routing.recovery_slots import RecoverySlots
from replicator.service import cluster_of
from replicator.settings import Settings
from replicator.state.store import Store

__all__ = ["JobPreflight", "surveying", "world_of"]

#: Concurrent requests.
_AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True)
class JobPreflight:
    """Both clusters as a worker would see them; nothing is written to them before `make_ready`.

    `holder` names the place of the messages in error messages: the source, or an archive.
    """

    settings: Settings
    context: ConnectorContext
    topics: RouteTopics
    holder: str = "source"

    @property
    def options(self) -> RouteOptions:
        """How the route copies."""
        return route_options(
            self.settings.route,
            self.context.identity,
            settle_timeout=self.settings.settle_timeout,
            sealer=self.context.sealer,
        )

    @property
    def job(self) -> CopyJob:
        """How Spark's tasks copy."""
        return CopyJob.of(self.settings, self.options)

    @property
    def queue_map(self) -> dict[MessageQueue, MessageQueue]:
        """The target queue of each source queue."""
        return {
            MessageQueue(plan.topic, *source): MessageQueue(plan.target_topic, *target)
            for plan in self.topics.plans
            for source, target in plan.queue_map.items()
        }

    async def find_maps(self) -> None:
        """Finds the existing queue maps, and keeps them in the store; nothing is written to the clusters.

        Raises:
            StartupError: no topic is selected, or one cannot be copied or read.
        """
        self._refuse()
        await self.topics.find_maps()
        self._refuse_what_was_found()
        self.topics.plan()

    def has(self, part: Range) -> bool:
        """Whether the target has the range's queue."""
        config = self.context.target.topics.get(part.target.broker, {}).get(part.target_topic)
        return config is not None and part.target.queue_id < config.queues

    async def check(self) -> None:
        """Checks that all selected topics can be copied; writes nothing.

        Raises:
            StartupError: no topic is selected, one cannot be copied, or a permission is missing.
        """
        self._refuse()
        await refuse_missing_rights(self.topics, self.context)

    async def make_ready(self) -> None:
        """Gives the target's topics the queues that they need, as the live route does.

        Raises:
            StartupError: no topic is selected, or one cannot be created.
        """
        self._refuse()
        await self.topics.make_ready()
        self._refuse_what_was_found()

    def _refuse_what_was_found(self) -> None:
        for topic, problem in self.topics.problems.items():
            raise StartupError(f"topic {topic}: {problem}")

    def _refuse(self) -> None:
        self.topics.refuse_problems()
        if not self.topics.plans:
            raise StartupError(
                f"topics = {', '.join(self.settings.topics)}: the {self.holder} has no such topic",
                hint="check --topics",
            )

    async def ranges(self) -> list[Range]:
        """The current range of each of the route's source queues, [oldest, next); empty queues too."""

        async def one(copied: tuple[TopicPlan, Queue, Queue]) -> Range:
            plan, source, target = copied
            reader = self.context.source.cluster.reader(source.broker)
            end = await max_offset(reader, plan.topic, source.queue_id)
            start = min(end, await self._start(plan.topic, source))
            return Range(plan.topic, source, plan.target_topic, target, start, end)

        queues = [(plan, *pair) for plan in self.topics.plans for pair in plan.queue_map.items()]
        return await bounded(one, queues, at_once=_AT_ONCE)

    async def _start(self, topic: str, source: Queue) -> int:
        reader = self.context.source.cluster.reader(source.broker)
        oldest = await min_offset(reader, topic, source.queue_id)
        moment = self.settings.route.start_timestamp()
        if isinstance(moment, str):  # `latest`: copies start where the first copy is
            return oldest
        return max(oldest, await offset_at(reader, topic, source.queue_id, moment))

    async def refuse_others(self, incarnation: str) -> None:
        """Listens for a session timeout for others that copy our topics: workers of the route's group, or jobs.

        Args:
            incarnation: that of our own job, whose heartbeats do not count.

        Raises:
            StartupError: another one copies them, or a worker does not report what it runs.
        """
        context, heard = self.context, self.settings.source_online_topic
        side = context.source if self.settings.coordination == "source" else context.target
        topics = {plan.topic for plan in self.topics.plans}
        listening = _Listening(self.group, topics, incarnation, self.settings)
        brokers = [name for name, there in side.topics.items() if heard in there]
        await asyncio.gather(*(listening.at(side.cluster, name, heard) for name in brokers))

    def claimed(self, command: str) -> AbstractContextManager[JobClaim | None]:
        """Announces to workers and jobs that `command` copies our topics; gives the claim, None if `standalone`."""
        if self.settings.standalone:
            return nullcontext()
        settings = self.settings
        side = settings.source if settings.coordination == "source" else settings.target
        topics = {plan.topic for plan in self.topics.plans}
        return claimed(command, settings, self.group, topics, lambda: cluster_of(side))

    @property
    def group(self) -> str:
        """The group whose workers would copy the same."""
        identity = self.context.identity
        return self.settings.worker_group or f"{identity.source}-{identity.target}"


class _Listening:
    """Listens for workers of `group`, and jobs beside it, that copy `topics`."""

    def __init__(self, group: str, topics: Set[str], incarnation: str, settings: Settings) -> None:
        self._group = group
        self._topics = topics
        self._incarnation = incarnation
        self._seconds = settings.session_timeout
        self._signer = Signer.of(settings)
        self._freshness = Freshness()

    async def at(self, cluster: Cluster, broker: str, topic: str) -> None:
        try:
            reader = cluster.reader(broker)
            at = await max_offset(reader, topic, 0)
            until = asyncio.get_running_loop().time() + self._seconds
            while (left := until - asyncio.get_running_loop().time()) > 0:
                pulled = await pull(reader, topic, 0, at, suspend=min(1.0, left))
                for message in pulled.messages:
                    self._refuse(topic, broker, message)
                at = max(at, pulled.next_offset)
        except ClientError as error:
            raise StartupError(f"broker {broker} does not say whether a route is live: {error}") from None

    def _refuse(self, topic: str, broker: str, message: StoredMessage) -> None:
        worker, job = (
            self._signer.heartbeat(topic, message.content, group) for group in (self._group, jobs_of(self._group))
        )
        if (heard := worker or job) is None:
            return
        if self._freshness.age(broker, message.store_timestamp, heard.echo) > 2 * self._seconds:
            return  # somebody has written an old one again
        if worker is not None and worker.stage is not MemberState.LEFT and copies_topics(worker, self._topics):
            raise StartupError(
                f"worker {worker.worker} of the group {self._group} runs, and may copy the same queues",
                hint="stop the group's workers, and start them again after the backfill",
            )
        if job is not None and job.stage is not MemberState.LEFT and job.incarnation != self._incarnation:
            both = topics_of(job.info, self._topics)
            if both:
                raise StartupError(
                    f"{job.worker} copies the same queues, of {both[0]}", hint="wait for its end, or stop it"
                )


def world_of(
    settings: Settings, source: Discovery, target: Discovery, identity: Identity, store: Store
) -> ConnectorContext:
    """The context that a worker would have."""
    return ConnectorContext(
        source=source,
        target=target,
        identity=identity,
        store=store,
        budget=MemoryBudget(settings.memory_bytes),
        inspector=ForeignWriteInspector(),
        recovering=RecoverySlots(),
        may_send=lambda: True,
        settle_timeout=settings.settle_timeout,
        drain_timeout=settings.drain_timeout,
        stall_timeout=settings.stall_timeout,
        metadata_refresh_interval=settings.metadata_refresh_interval,
        audit=Audit(store.directory / AUDIT),
        sealer=Signer.of(settings).sealer(identity.target),
    )


@asynccontextmanager
async def surveying(settings: Settings, *, writes: bool) -> AsyncIterator[JobPreflight]:
    """The preflight of a job, within the context.

    Args:
        writes: the job copies, so no worker may use the store path meanwhile; else its queue maps are not needed.

    Raises:
        ConfigError: transforms are set, or nothing would be copied.
        StartupError: a cluster cannot be used, or another replicator uses the store path.
    """
    if settings.transforms:
        raise ConfigError(
            f"transforms = {', '.join(settings.transforms)}: Spark's tasks copy and compare messages as they are",
            hint="leave them out, or let the route do all of it",
        )
    if writes and settings.start_from == "latest":
        raise ConfigError("start_from = 'latest': nothing would be copied", hint="give earliest or a time")
    with TemporaryDirectory() as empty:
        store = Store(settings.store_path if writes else Path(empty))
        source = Discovery(cluster_of(settings.source), masters_only=False)
        target = Discovery(cluster_of(settings.target), masters_only=True)
        try:
            try:
                identity = await read_clusters(settings, source, target, store)
            except ClientError as error:
                raise StartupError(
                    error.message, hint=error.hint or "check the address, credentials and TLS"
                ) from None
            context = world_of(settings, source, target, identity, store)
            topics = RouteTopics(settings.connector, settings.route, context)
            topics.plan()
            yield JobPreflight(settings, context, topics)
        finally:
            await source.cluster.close()
            await target.cluster.close()
            store.close()
