"""How the records of POP consumers are read: what is known of each broker, and what is said where nothing is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.client.offsets import OffsetTable
from replicator.errors import BrokerRefused, Unreachable
from replicator.metadata import pop_log
from replicator.metadata.pop_log import PopLog
from replicator.protocol.message import StoredMessage
from replicator.routing import dispatch_barrier
from tests.metadata.test_pop_checkpoints import PLACE, ack, checkpoint, holding, record

REVIVED = ("CID_RMQ_SYS_REVIVE_GROUP", "rmq_sys_REVIVE_LOG_east")


class Broker:
    """A broker `a`: records of its timer, and those that are due, each at its offset."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.timer: list[StoredMessage] = []
        self.due: list[StoredMessage] = []
        self.fails: Exception | None = None
        self.reads: list[int] = []
        self.settings: dict[str, str] = {}
        self.asked = 0
        self.silent: Exception | None = None
        for name in ("max_offset", "offset_near", "pull", "read_range"):
            monkeypatch.setattr(pop_log, name, getattr(self, name))
        monkeypatch.setattr(dispatch_barrier, "dispatched", self.dispatched)
        monkeypatch.setattr(dispatch_barrier, "confirmed", self.confirmed)
        monkeypatch.setattr(pop_log, "read_settings", self.read_settings)
        endpoint = SimpleNamespace(refuse_pause=lambda: None, address="127.0.0.1:1")
        self.log = PopLog(SimpleNamespace(reader=lambda _: endpoint))  # type: ignore[arg-type]

    async def max_offset(self, *_: object) -> int:
        return len(self.timer)

    async def offset_near(self, *_: object) -> int:
        return 0

    async def dispatched(self, _: object) -> tuple[int, int]:
        return 1, 0

    async def confirmed(self, _: object) -> int | None:
        return None

    async def read_settings(self, _: object) -> dict[str, str]:
        self.asked += 1
        if self.silent:
            raise self.silent
        return self.settings

    async def pull(self, _: object, topic: str, _queue: int, offset: int, **more: object) -> Any:
        records = self.timer if topic == "rmq_sys_wheel_timer" else self.due
        return SimpleNamespace(messages=self._at(records)[offset:], next_offset=len(records))

    async def read_range(
        self, _: object, _topic: str, _queue: int, start: int, stop: int, *, at_once: int
    ) -> AsyncIterator[Any]:
        assert at_once > 1
        self.reads.append(start)
        for each in self._at(self.timer)[start:stop]:
            if self.fails:
                raise self.fails
            yield each

    @staticmethod
    def _at(records: list[StoredMessage]) -> list[Any]:
        return [SimpleNamespace(**_fields(each), queue_offset=index) for index, each in enumerate(records)]

    async def look(self, revived: int | None = None) -> dict[Any, Any]:
        offsets = {} if revived is None else {REVIVED: {0: revived}}
        return await self.log.in_flight({"a": OffsetTable(offsets, b"")})


def _fields(message: StoredMessage) -> dict[str, Any]:
    return {name: getattr(message, name) for name in ("content", "properties", "store_timestamp")}


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    return Broker(monkeypatch)


async def test_each_record_is_read_once(broker: Broker) -> None:
    broker.timer += [record("ck", checkpoint())]
    assert await broker.look() == {PLACE: holding(100, 101, 104)}
    broker.timer += [record("ack", ack(100))]
    assert await broker.look() == {PLACE: holding(101, 104)}
    assert broker.reads == [0, 1]


async def test_what_the_broker_has_revived_is_not_held_any_more(broker: Broker) -> None:
    """Up to where it says that it is, and no further."""
    broker.timer += [record("ck", checkpoint()), record("ck", checkpoint(200, (0,)))]
    broker.due += [record("ck", checkpoint()), record("ck", checkpoint(200, (0,)))]
    assert await broker.look(0) == {PLACE: holding(200)}
    assert await broker.look(1) == {}


async def test_a_broker_that_has_less_is_read_from_there(broker: Broker) -> None:
    """Another replica is the master now."""
    broker.timer += [record("ck", checkpoint()), record("ack", ack(100))]
    await broker.look()
    del broker.timer[1:]
    await broker.look()
    broker.timer += [record("ack", ack(104))]
    assert await broker.look() == {PLACE: holding(101)}


async def test_a_refusal_matters_where_groups_consume_by_pop(broker: Broker) -> None:
    broker.timer += [record("ck", checkpoint())]
    broker.fails = BrokerRefused("127.0.0.1:1", 11, 16, "no right")
    await broker.look()
    assert (broker.log.problems, broker.log.behind) == ({}, {})
    await broker.look(0)
    assert "no right" in broker.log.problems["a"]
    broker.fails = None
    assert await broker.look() == {PLACE: holding(100, 101, 104)}
    assert broker.log.problems == {}


async def test_a_timer_that_nobody_may_read_is_said(broker: Broker) -> None:
    """Brokers of 5.1.4 say that there is no such topic, also where nothing was revived yet."""
    await broker.look()
    assert broker.log.problems == {}
    broker.timer += [record("ck", checkpoint())]
    broker.fails = BrokerRefused("127.0.0.1:1", 11, 17, "the topic[rmq_sys_wheel_timer] not exist")
    assert await broker.look() == {}
    assert "nobody may read its timer" in broker.log.problems["a"]


async def test_what_the_account_may_not_ask_through_a_proxy_is_said(broker: Broker) -> None:
    """Whether anybody consumes by POP is not known then."""
    broker.timer += [record("ck", checkpoint())]
    assert await broker.log.in_flight({"a": OffsetTable({}, b"", "no right to the records")}) == {}
    assert "no right to the records" in broker.log.problems["a"]


async def test_records_that_nobody_can_read_are_said(broker: Broker) -> None:
    broker.settings["popConsumerKVServiceEnable"] = "true"
    await broker.look()
    assert "RocksDB" in broker.log.problems["a"]


async def test_a_broker_that_did_not_say_where_its_records_are_is_asked_again(broker: Broker) -> None:
    """Its connection was lost just then."""
    broker.settings["popConsumerKVServiceEnable"] = "true"
    broker.silent = Unreachable("127.0.0.1:1", "it is away")
    await broker.look(0)
    assert (list(broker.log.behind), broker.log.problems) == (["a"], {})
    broker.silent = None
    await broker.look(0)
    assert "RocksDB" in broker.log.problems["a"]
    await broker.look(0)
    assert broker.asked == 2


@pytest.mark.parametrize("refusal", [None, BrokerRefused("127.0.0.1:1", 26, 16, "no right")])
async def test_where_the_records_are_is_asked_now_and_then(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, refusal: Exception | None
) -> None:
    """The broker may have been restarted with another setting, or the account have been given the right to ask."""
    broker.silent = refusal
    await broker.look(0)
    await broker.look(0)
    assert (broker.asked, broker.log.problems) == (1, {})
    broker.settings["popConsumerKVServiceEnable"], broker.silent = "true", None
    monkeypatch.setattr(pop_log, "_SETTINGS", 0.0)
    await broker.look(0)
    assert "RocksDB" in broker.log.problems["a"]


@pytest.mark.parametrize("error", [Unreachable("127.0.0.1:1", "it is away"), TimeoutError()])
async def test_what_is_not_read_yet_is_said(broker: Broker, error: Exception) -> None:
    """Nothing is concluded from a part of the records."""
    broker.timer += [record("ck", checkpoint())]
    broker.fails = error
    await broker.look()
    assert broker.log.behind == {}  # nobody consumes by POP
    await broker.look(0)
    assert list(broker.log.behind) == ["a"]
    broker.fails = None
    assert await broker.look() == {PLACE: holding(100, 101, 104)}
    assert broker.log.behind == {}


async def test_offsets_are_never_newer_than_the_records(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker moves an offset before its queues show the checkpoint: it is waited for."""
    broker.timer += [record("ck", checkpoint(200, (0,)))]
    await broker.look()
    behind = [(10, 5), (12, 3), (12, 2)]  # where its log ends, and what is not shown: 10 is, with the third answer

    async def dispatched(_: object) -> tuple[int, int]:
        if len(behind) == 1:
            broker.timer.append(record("ck", checkpoint()))
        return behind.pop(0)

    monkeypatch.setattr(dispatch_barrier, "dispatched", dispatched)
    monkeypatch.setattr(dispatch_barrier, "_PAUSE", 0.001)
    assert (await broker.look())[PLACE].first == 100
    assert behind == []
