"""A mirror whose log is played: what was written can be given back."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from replicator.client.topics import TopicConfig
from replicator.group.control_log import LogMessage
from replicator.group.member import Topics
from replicator.group.membership import Heartbeat, Membership, MemberState
from replicator.group.mirror import Mirror
from replicator.group.other_log import mirror_of
from replicator.group.signature import Signer
from replicator.group.wire import Author, write_heartbeat, write_records
from replicator.routing.message_queue import MessageQueue
from replicator.state.record import Kind, Record
from replicator.state.store import Store

__all__ = ["CLUSTERS", "CONNECTOR", "MIRROR", "TOPICS", "FakeLog", "Setup", "opened", "records"]

CONNECTOR = {"config": {}, "state": "STOPPED", "origin": "rest", "epoch": 0}
CLUSTERS = {"group": "g", "source": {"id": "east", "namesrv": []}, "target": {"id": "west"}}
MIRROR = mirror_of("g", "east")
TOPICS = Topics("online", "sink", "control")


class FakeLog:
    """A log of one broker that gives back what is written, once `deliver` is called."""

    def __init__(self) -> None:
        self.was_read = self.caught_up = False
        self.opened = False
        self.failure: Exception | None = None
        self.written: list[tuple[str, bytes]] = []

    async def open(self, there: Mapping[str, Mapping[str, TopicConfig]]) -> None:
        if self.failure is not None:
            raise self.failure
        self.opened = True

    async def refresh(self) -> None: ...

    def forget(self, broker: str) -> None: ...

    async def close(self) -> None: ...

    async def write(self, topic: str, body: bytes, *, copies: int = 1) -> None:
        if self.failure is not None:
            raise self.failure
        self.written.append((topic, body))


class Setup:
    """A mirror of the group g, the worker w0; `news` are the kinds that it was told.

    `whole` is the log of the whole topic once it is read, which `caught_up` is called for.
    """

    def __init__(
        self, directory: Path, coordination: Literal["source", "target"] = "source", *, secret: str | None = None
    ) -> None:
        self.whole = FakeLog()
        self.caught_up: Callable[[], None] | None = None
        self.store = Store(directory)
        self.store.state.worker = "w0"
        self.log = FakeLog()
        self.news: list[set[Kind]] = []
        self.woken = 0
        self.mirror = Mirror(
            "g",
            "east",
            Membership("w0", timeout=5.0),
            self.store,
            TOPICS,
            signer=Signer(secret),
            coordination=coordination,
            on_records=self.news.append,
            on_change=self._wake,
        )
        self.mirror.use(self.log)

    def _wake(self) -> None:
        self.woken += 1

    def read_whole(self, caught_up: Callable[[], None]) -> FakeLog:
        self.caught_up = caught_up
        return self.whole

    def say(self, body: bytes, topic: str = "control", *, stored: int = 1000, broker: str = "b") -> None:
        self.mirror.on_said(LogMessage(MessageQueue(topic, broker, 0), body, stored))

    def deliver(self) -> None:
        """All that was written comes back."""
        for topic, body in self.log.written:
            self.say(body, topic)

    def beat(self, worker: str, group: str, stage: MemberState = MemberState.ONLINE, **info: Any) -> bytes:
        heartbeat = Heartbeat(worker=worker, incarnation=f"of {worker}", sequence=1, stage=stage, info=info)
        return write_heartbeat(group, heartbeat)


async def opened(setup: Setup) -> Setup:
    await setup.mirror.open(dict)
    return setup


def records(*found: Record) -> bytes:
    (body,) = write_records(Author(MIRROR, "w9", "i9"), itertools.count(1), found)
    return body
