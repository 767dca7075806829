"""What a group says of a connector in its log, before a worker takes part."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.client import queue_range
from replicator.errors import BrokerRefused, Unreachable
from replicator.group.signature import Signer
from replicator.group.wire import Author, write_records
from replicator.state.record import Kind, Record, Version
from replicator.worker import known_connector as module
from replicator.worker.known_connector import GroupLog
from tests.support.records import VALUES

SECRET = "a secret of the group that is long enough"
TOPIC = "replicator_sys_control"


def said(kind: Kind = Kind.CONNECTOR, *, group: str = "g", secret: str | None = None) -> bytes:
    """A message that says a record."""
    key, value = VALUES[kind]
    record = Record(kind, key, Version(1, "w"), value)
    (body,) = write_records(Author(group, "w", "i"), itertools.count(1), [record])
    return Signer(secret).sign(TOPIC, group, body)


class Brokers:
    """By name what each has in its log, a message a second, or why it does not answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **logs: list[bytes] | Exception) -> None:
        self.logs = logs
        self.cluster: Any = SimpleNamespace(refresh=self._refresh, brokers=lambda: list(logs), reader=logs.get)
        for each in (self.max_offset, self.pull, self.offset_near):
            monkeypatch.setattr(queue_range, each.__name__, each)
        monkeypatch.setattr(module, "read_range", self.read_range)

    async def _refresh(self) -> None:
        return None

    async def max_offset(self, broker: list[bytes] | Exception, *_: object) -> int:
        if isinstance(broker, Exception):
            raise broker
        return len(broker)

    async def pull(self, _broker: object, _topic: str, _queue: int, offset: int, **_: object) -> Any:
        return SimpleNamespace(messages=[SimpleNamespace(store_timestamp=1000 * offset)])

    async def offset_near(self, _broker: object, _topic: str, _queue: int, timestamp: int) -> int:
        return timestamp // 1000

    async def read_range(
        self, broker: list[bytes], _topic: str, _queue: int, start: int, stop: int
    ) -> AsyncIterator[Any]:
        for body in broker[start:stop]:
            yield SimpleNamespace(content=body)

    async def name(self, connector: str = "route", *, secret: str | None = None, past: float = 10.0) -> bool:
        """Whether group `g` has named the connector."""
        log = GroupLog(cluster=self.cluster, topic=TOPIC, group="g", signer=Signer(secret), past=past)
        return await log.names(connector)


async def test_a_connector_that_the_group_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(monkeypatch, a=[b"of somebody else", said(Kind.CLUSTERS), said()])
    assert await brokers.name()
    assert not await brokers.name("another")


@pytest.mark.parametrize("log", [[], [said(group="another")], [said(Kind.TASK)]], ids=["none", "group", "kind"])
async def test_one_that_it_does_not_run(monkeypatch: pytest.MonkeyPatch, log: list[bytes]) -> None:
    assert not await Brokers(monkeypatch, a=log).name()


async def test_one_broker_that_has_it_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none says so, or none answers, it counts as a first start."""
    away, refused = Unreachable("a:1", "refused"), BrokerRefused("b:1", 11, 17, "no such topic")
    assert await Brokers(monkeypatch, a=away, b=refused, c=[said()]).name()
    assert not await Brokers(monkeypatch, a=away, b=refused, c=[]).name()


async def test_a_group_with_a_secret_believes_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not await Brokers(monkeypatch, a=[said(), said(secret=SECRET + "?")]).name(secret=SECRET)
    assert await Brokers(monkeypatch, a=[said(), said(secret=SECRET)]).name(secret=SECRET)


async def test_only_the_newest_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a group knows is written again and again."""
    brokers = Brokers(monkeypatch, a=[said(), *[said(Kind.TASK)] * 20])
    assert not await brokers.name(past=10.0)
    assert await brokers.name(past=20.0)
