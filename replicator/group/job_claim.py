"""A job from the command line that copies queues of a group: it announces that while it runs; workers wait for it.

Its heartbeats are on the workers' topic, in a group of their own, so that it is not taken for a worker. It
announces itself before it listens for workers: later workers know of it, earlier ones are seen.

Its tasks send only while its heartbeats name it (see `job_lease`). Where these have not come back for a while,
others may have taken it for ended: it is named again when it has listened for them once more, and ends if there are
any.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any, Final

from replicator.aio.clock import now
from replicator.client.cluster import Cluster
from replicator.client.discovery import Discovery
from replicator.errors import ClientError, ConfigError, ProtocolError, ReplicatorError
from replicator.group.control_log import ControlLog, LogMessage
from replicator.group.freshness import Echo, Freshness
from replicator.group.job_lease import JOBS, JobLease
from replicator.group.membership import Heartbeat, MemberState
from replicator.group.signature import Signer
from replicator.group.wire import write_heartbeat
from replicator.observe.logging import get_logger
from replicator.routing.selector import TopicSelector
from replicator.routing.task_id import TaskId
from replicator.settings import RouteSettings, Settings
from replicator.state.connector_configs import Connectors

__all__ = ["JobClaim", "claimed", "copies_ours", "copies_topics", "jobs_of", "topics_of"]

#: Brokers that each heartbeat is written to, if there are as many.
_COPIES: Final = 2
#: Of the session timeout: how long tasks may send after a heartbeat; after how long without one of ours that came
#: back we count as gone, since others wait for a whole one; and how often we say that we are there, at least.
_LEASE: Final = 0.5
_LAPSE: Final = 0.7
_BEAT: Final = 1 / 12

log = get_logger(__name__)


def jobs_of(group: str) -> str:
    """The group of the jobs that copy queues of `group`; no group can be called so."""
    return f"{group}/jobs"


def topics_of(info: Mapping[str, Any], topics: Iterable[str]) -> list[str]:
    """Those of `topics` that the job copies that says `info` of itself.

    With patterns that no job starts with it is none.
    """
    return sorted(_selected(info.get("topics", ()), info.get("exclude_topics", ()), topics))


def _selected(include: Sequence[str], exclude: Sequence[str], topics: Iterable[str]) -> list[str]:
    """Those of `topics` that a process with these settings may copy; with patterns that nothing runs with, none."""
    try:
        selector = TopicSelector.of(include, exclude)
    except ConfigError:
        return []
    return [topic for topic in topics if _may_select(selector, topic)]


def _may_select(selector: TopicSelector, topic: str) -> bool:
    try:
        return selector.selects(topic)
    except ConfigError:  # it takes too long here, now: there it may have been found out
        return True


def copies_ours(route: RouteSettings, connectors: Connectors, source: Discovery, info: Mapping[str, Any]) -> bool:
    """Whether the job that says `info` of itself copies a topic that `route` or one of `connectors` selects."""
    held = (connector.settings for connector in connectors.all().values())
    routes = [route, *(each for each in held if isinstance(each, RouteSettings))]
    copied = topics_of(info, {topic for there in source.topics.values() for topic in there})
    return any(_selected(each.topics, each.exclude_topics, copied) for each in routes)


def copies_topics(worker: Heartbeat, topics: Collection[str]) -> bool:
    """Whether a worker that says this may copy some of `topics`; one without tasks may get any."""
    tasks = {TaskId.parse(task).name for task in worker.info.get("tasks", {}) if "/" in task}
    return not tasks or not tasks.isdisjoint(topics)


@contextmanager
def claimed(
    command: str, settings: Settings, group: str, topics: Collection[str], connect: Callable[[], Cluster]
) -> Iterator[JobClaim]:
    """Says that `command` copies `topics`, those of `settings`, within the context.

    Raises:
        StartupError, ClientError: it cannot be said.
    """
    claim = JobClaim(command, settings, group, topics)
    thread = threading.Thread(target=claim.run, args=(connect,), name="claim", daemon=True)
    thread.start()
    claim.said.wait()
    try:
        claim.check()
        yield claim
    finally:
        claim.end()
        thread.join()


class JobClaim:
    """The claim of a job; `incarnation` names it, `lease` is that of its tasks."""

    def __init__(self, command: str, settings: Settings, group: str, topics: Collection[str]) -> None:
        self.incarnation = uuid.uuid4().hex
        self.said = threading.Event()
        self._failure: ReplicatorError | None = None
        self._name = f"{command} on {socket.gethostname()}"
        self._settings = settings
        self._workers = group
        self._group = jobs_of(group)
        self._topics = topics
        self._signer = Signer.of(settings)
        self._freshness = Freshness()
        self._sequence = 0
        self._echo: Echo | None = None
        self._over = threading.Event()
        #: When those heartbeats were written that have not come back, and the newest of those that have.
        self._sent: dict[int, float] = {}
        self._heard = now()
        #: Since when we are heard without interruption; None while we are not. At first others are listened for
        #: before the job begins.
        self._since: float | None = -inf
        self._rivals: set[str] = set()

    @property
    def lease(self) -> JobLease:
        """The lease of the job's tasks; one that has lost it waits for it as long as for a broker."""
        settings = self._settings
        return JobLease(
            group=self._group,
            worker=self._name,
            incarnation=self.incarnation,
            job=self.incarnation,
            topic=settings.source_online_topic,
            coordination=settings.coordination,
            seconds=settings.session_timeout * _LEASE,
            patience=max(settings.session_timeout, settings.stall_timeout),
            signer=self._signer,
        )

    def check(self) -> None:
        """Must be called now and then while the job runs.

        Raises:
            ReplicatorError: nothing announces the job any more, so it must end.
        """
        if self._failure is not None:
            raise self._failure

    def run(self, connect: Callable[[], Cluster]) -> None:
        """The thread: heartbeats until `end`."""
        try:
            asyncio.run(self._run(connect))
        except Exception as error:  # noqa: BLE001 - in a thread nobody else would notice it
            reason = f"the job is not announced any more: {error!r}"
            self._failure = error if isinstance(error, ReplicatorError) else ReplicatorError(reason)
        finally:
            self.said.set()

    def end(self) -> None:
        self._over.set()

    async def _run(self, connect: Callable[[], Cluster]) -> None:
        cluster, topic = connect(), self._settings.source_online_topic
        carrier = ControlLog(
            cluster,
            {topic: 0.0},
            side=self._settings.coordination,
            on_said=self._on_said,
            on_reset=lambda _: None,
            on_caught_up=lambda: None,
        )
        interval = min(self._settings.heartbeat_interval, self._settings.session_timeout * _BEAT)
        try:
            await carrier.open({})
            await self._beat(carrier, MemberState.ONLINE)
            self.said.set()
            while not await asyncio.to_thread(self._over.wait, interval):
                try:
                    await self._beat(carrier, MemberState.ONLINE)
                except (ClientError, ProtocolError) as error:
                    log.warning("heartbeat not written", reason=str(error))
            try:
                await self._beat(carrier, MemberState.LEFT)
            except (ClientError, ProtocolError) as error:
                log.warning(
                    "the job's end could not be published; workers wait for a session timeout", reason=str(error)
                )
        finally:
            await carrier.close()
            await cluster.close()

    def _on_said(self, said: LogMessage) -> None:
        heard = self._signer.heartbeat(said.queue.topic, said.body, self._group)
        if heard is not None and heard.incarnation == self.incarnation:
            self._echo = Echo(said.queue.broker, said.stored)
            self._heard = max(self._heard, self._sent.pop(heard.sequence, -inf))
        elif heard is not None:
            self._listen(said, heard, rival=bool(topics_of(heard.info, self._topics)))
        elif (worker := self._signer.heartbeat(said.queue.topic, said.body, self._workers)) is not None:
            waits = bool(worker.info.get("waiting_for"))  # for us, or for another job, and for us then
            self._listen(said, worker, rival=not waits and copies_topics(worker, self._topics))

    def _listen(self, said: LogMessage, heartbeat: Heartbeat, *, rival: bool) -> None:
        age = self._freshness.age(said.queue.broker, said.stored, heartbeat.echo)
        if not rival or heartbeat.stage is MemberState.LEFT:
            self._rivals.discard(heartbeat.incarnation)
        elif age <= 2 * self._settings.session_timeout:  # or else somebody has written an old one again
            self._rivals.add(heartbeat.incarnation)

    def _may_copy(self, at: float) -> bool:
        """Whether the job's tasks may send at `at`.

        Raises:
            ReplicatorError: others have taken the job for ended.
        """
        timeout = self._settings.session_timeout
        if at - self._heard > timeout * _LAPSE:
            if self._since is not None:
                log.warning(
                    "the job's heartbeats do not come back: its tasks stop until nobody else copies its queues"
                )
            self._since = None
        elif self._since is None:
            self._since = at
            self._rivals.clear()
        if self._since is None or at - self._since < timeout:
            return False
        if self._since > -inf and self._rivals:
            raise ReplicatorError(
                f"the job was not heard for {timeout * _LAPSE:g} s, and another process copies its queues now",
                hint="once no worker and no other job does, run it again: it continues where it stopped",
            )
        self._since = -inf
        return True

    async def _beat(self, carrier: ControlLog, stage: MemberState) -> None:
        at = now()
        jobs = [self.incarnation] if stage is MemberState.ONLINE and self._may_copy(at) else []
        self._sequence += 1
        self._sent[self._sequence] = at
        info = {"topics": self._settings.topics, "exclude_topics": self._settings.exclude_topics, JOBS: jobs}
        beat = Heartbeat(
            worker=self._name,
            incarnation=self.incarnation,
            sequence=self._sequence,
            stage=stage,
            info=info,
            echo=self._echo,
        )
        topic = self._settings.source_online_topic
        body = self._signer.sign(topic, self._group, write_heartbeat(self._group, beat))
        await carrier.write(topic, body, copies=_COPIES)
