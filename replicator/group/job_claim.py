"""A job from the command line that copies queues of a group: it announces that while it runs; workers wait for it.

Its heartbeats are on the workers' topic, in a group of their own, so that it is not taken for a worker. It
announces itself before it listens for workers: later workers know of it, earlier ones are seen.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from replicator.client.cluster import Cluster
from replicator.client.discovery import Discovery
from replicator.errors import ClientError, ConfigError, ProtocolError, ReplicatorError
from replicator.group.control_log import ControlLog, LogMessage
from replicator.group.freshness import Echo
from replicator.group.membership import Heartbeat, MemberState
from replicator.group.signature import Signer
from replicator.group.wire import write_heartbeat
from replicator.observe.logging import get_logger
from replicator.routing.selector import TopicSelector
from replicator.settings import RouteSettings, Settings
from replicator.state.connector_configs import Connectors

__all__ = ["claimed", "copies_ours", "jobs_of"]

#: Brokers that each heartbeat is written to, if there are as many.
_COPIES: Final = 2

log = get_logger(__name__)


def jobs_of(group: str) -> str:
    """The group of the jobs that copy queues of `group`; no group can be called so."""
    return f"{group}/jobs"


def copies_ours(route: RouteSettings, connectors: Connectors, source: Discovery, info: Mapping[str, Any]) -> bool:
    """Whether the job that says `info` of itself copies a topic that `route` or one of `connectors` selects."""
    held = (connector.settings for connector in connectors.all().values())
    routes = [route, *(each for each in held if isinstance(each, RouteSettings))]
    ours = [TopicSelector.of(each.topics, each.exclude_topics) for each in routes]
    try:
        job = TopicSelector.of(info.get("topics", ()), info.get("exclude_topics", ()))
    except ConfigError:
        return False  # no job starts with such patterns
    topics = {topic for there in source.topics.values() for topic in there}
    return any(job.selects(topic) and any(each.selects(topic) for each in ours) for topic in topics)


@contextmanager
def claimed(command: str, settings: Settings, group: str, connect: Callable[[], Cluster]) -> Iterator[str]:
    """Says that `command` copies the queues of `settings`, within the context; gives the job's own incarnation.

    Raises:
        StartupError, ClientError: it cannot be said.
    """
    claim = _Claim(command, settings, group)
    thread = threading.Thread(target=claim.run, args=(connect,), name="claim", daemon=True)
    thread.start()
    claim.said.wait()
    try:
        if claim.failure is not None:
            raise claim.failure
        yield claim.incarnation
    finally:
        claim.end()
        thread.join()


class _Claim:
    def __init__(self, command: str, settings: Settings, group: str) -> None:
        self.incarnation = uuid.uuid4().hex
        self.said = threading.Event()
        self.failure: ReplicatorError | None = None
        self._name = f"{command} on {socket.gethostname()}"
        self._settings = settings
        self._group = jobs_of(group)
        self._signer = Signer.of(settings)
        self._sequence = 0
        self._echo: Echo | None = None
        self._over = threading.Event()

    def run(self, connect: Callable[[], Cluster]) -> None:
        """The thread: heartbeats until `end`."""
        asyncio.run(self._run(connect))

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
        try:
            try:
                await carrier.open({})
                await self._beat(carrier, MemberState.ONLINE)
            except ReplicatorError as error:
                self.failure = error
                return
            finally:
                self.said.set()
            while not await asyncio.to_thread(self._over.wait, self._settings.heartbeat_interval):
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

    async def _beat(self, carrier: ControlLog, stage: MemberState) -> None:
        self._sequence += 1
        info = {"topics": self._settings.topics, "exclude_topics": self._settings.exclude_topics}
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
