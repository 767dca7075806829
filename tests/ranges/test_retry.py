"""Tasks outlast a broker and a name server that restart: Spark makes all attempts of a task within a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from replicator.client.cluster import Cluster, Topology
from replicator.client.connection import Answer
from replicator.client.line_window import LineWindow
from replicator.errors import ReplicatorError, StartupError, Unreachable
from replicator.ranges import access
from replicator.ranges import reader as reader_module
from replicator.ranges.access import run
from replicator.ranges.reader import RangeReader
from replicator.routing.queue_map import Queue
from replicator.spark.source import datasource
from replicator.spark.source.offsets import Part
from replicator.spark.source.options import ReadOptions, WriteOptions
from replicator.spark.source.scan import Partition, scan
from tests.routing.shown import Shown

NAMESRV = {"namesrv": "127.0.0.1:1"}


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """What a cluster's name server says before it is there."""
    monkeypatch.setattr(access, "_PAUSE", 0.001)
    monkeypatch.setattr(reader_module, "_PAUSE", 0.001)
    errors: list[Exception] = [Unreachable("n", "refused"), StartupError("name server n knows the clusters: none")]

    async def refresh(_self: object) -> Topology:
        if errors:
            raise errors.pop(0)
        return Topology("c", {})

    monkeypatch.setattr(Cluster, "refresh", refresh)
    return errors


def test_a_task_that_reads_waits_for_the_name_server(away: list[Exception]) -> None:
    """As one that copies does."""
    options = ReadOptions.of({**NAMESRV, "topic": "T"})
    assert list(scan(options, Partition(Part("T", Queue("a", 0), 5, 5), "c"))) == []
    assert not away


def test_a_task_that_writes_waits_for_the_name_server(away: list[Exception]) -> None:
    """Before it has sent anything."""
    options = WriteOptions.of({**NAMESRV, "topic": "T"})
    assert run(datasource._write(options, iter([]), brokers=(), settle=False)) is not None
    assert not away


class _Restarting(Cluster):
    """A cluster whose only broker is away as long as its name server is."""

    def __init__(self, broker: Shown, away: list[Exception]) -> None:
        super().__init__(["127.0.0.1:1"])
        self._shown = broker
        self._away = away

    def reader(self, broker: str) -> Any:
        if self._away:
            raise Unreachable(broker, "refused")
        return _Endpoint(self._shown)

    def is_master(self, broker: str, address: str) -> bool:
        return True

    def slave(self, broker: str) -> None:
        return None


class _Endpoint:
    def __init__(self, broker: Shown) -> None:
        self._broker = broker
        self.address = broker.address
        self.line = LineWindow(lambda: 0.0)

    async def connection(self) -> _Endpoint:
        return self

    def request(self, code: int, fields: Mapping[str, str], on_answer: Callable[[Answer], None], **_: Any) -> None:
        asyncio.ensure_future(self._broker.invoke(code, fields)).add_done_callback(lambda f: on_answer(f.result()))


async def test_a_range_is_read_when_both_are_back(away: list[Exception]) -> None:
    """The name server may come back behind its broker."""
    reader = RangeReader(cast("Cluster", _Restarting(Shown(b"", b"", b""), away)), "T", Queue("a", 0), 0, 3)
    assert [message.queue_offset async for chunk in reader.chunks() for message in chunk] == [0, 1, 2]
    assert not away


async def test_a_broker_that_stays_away_is_given_up(away: list[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time that everybody who waits for a broker waits, and no earlier."""
    monkeypatch.setattr(reader_module, "PATIENCE", 0.3)
    away += [Unreachable("n", "refused")] * 10_000
    reader = RangeReader(cast("Cluster", _Restarting(Shown(b"", b"", b""), away)), "T", Queue("a", 0), 0, 3)
    began = time.monotonic()
    with pytest.raises(ReplicatorError, match=r"T/a/0 cannot be read for 0.3 s: a cannot be reached"):
        await anext(reader.chunks())
    assert time.monotonic() - began >= 0.3
