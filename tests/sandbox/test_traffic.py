"""Which cluster a command is about, how fast messages are sent, and where they go; brokers are fakes here."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.client.topics import TopicConfig
from replicator.errors import ConfigError, SandboxError
from replicator.protocol.batch import size_of
from replicator.sandbox import traffic
from replicator.sandbox.state import State
from replicator.sandbox.traffic import Place, Shape, choose, end_of, produce, start_of, writable

pytestmark = pytest.mark.usefixtures("sent")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> dict[Place, int]:
    """How many messages each queue has got."""
    found: dict[Place, int] = {}

    async def send_batch(broker: str, fields: dict[str, str], body: list[bytes]) -> None:
        place = Place(broker, int(fields["e"]))
        found[place] = found.get(place, 0) + len(body)
        assert all(size_of(entry, 0) == len(entry) for entry in body)

    monkeypatch.setattr(traffic, "send_batch", send_batch)
    return found


CLIENT: Any = SimpleNamespace(
    writer=lambda broker: broker, master=lambda broker: broker, brokers=lambda: ["a", "b"]
)
QUEUES = [Place(broker, i) for broker in ("a", "b") for i in range(2)]


def topic_with(monkeypatch: pytest.MonkeyPatch, **perms: int) -> None:
    """Topic T has these perms at the brokers."""

    async def read_topics(broker: str) -> SimpleNamespace:
        config = TopicConfig(name="T", read_queues=2, write_queues=2, perm=perms[broker])
        return SimpleNamespace(topics={"T": config})

    monkeypatch.setattr(traffic, "read_topics", read_topics)


def test_which_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is named, else the first, from which is copied, or the last."""
    state = State(tmp_path)
    with pytest.raises(SandboxError, match="no clusters are up"):
        choose(state, "")
    up: dict[str, Any] = {name: SimpleNamespace(name=name) for name in ("east", "west")}
    monkeypatch.setattr(State, "read", lambda _: up)
    assert choose(state, "").name == "east"
    assert choose(state, "", last=True).name == "west"
    assert choose(state, "west").name == "west"
    with pytest.raises(ConfigError, match="there are east, west"):
        choose(state, "north")


async def test_over_all_queues_in_turn(sent: dict[Place, int]) -> None:
    steps = [step async for step in produce(CLIENT, "T", Shape(), QUEUES, first=0, count=2500, rate=0)]
    assert steps == [1000, 2000, 2500]
    assert sent == dict.fromkeys([Place("a", 0), Place("a", 1), Place("b", 0), Place("b", 1)], 625)


async def test_at_a_rate(sent: dict[Place, int]) -> None:
    """No more than was due at any time."""
    clock = asyncio.get_running_loop().time
    began = clock()
    async for step in produce(CLIENT, "T", Shape(), QUEUES, first=0, count=60, rate=200):
        assert step <= (clock() - began) * 200
    assert sum(sent.values()) == 60


async def test_numbers_go_on_where_the_topic_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or what is sent later could not be told from what was sent before."""
    keys: list[bytes] = []

    async def send_batch(_broker: str, _fields: dict[str, str], body: list[bytes]) -> None:
        keys.extend(body)

    async def max_offset(_broker: str, _topic: str, queue_id: int) -> int:
        return 10 + queue_id

    monkeypatch.setattr(traffic, "send_batch", send_batch)
    monkeypatch.setattr(traffic, "max_offset", max_offset)
    first = await end_of(CLIENT, QUEUES, "T")
    assert first == 42
    assert [step async for step in produce(CLIENT, "T", Shape(), QUEUES, first=first, count=3, rate=0)] == [3]
    assert [i for i in range(100) for key in keys if b"KEYS\x01order-%d\x02" % i in key] == [42, 43, 44]


async def test_messages_go_only_where_clients_send_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker takes them whatever the topic's perm is."""
    topic_with(monkeypatch, a=4, b=6)
    assert await writable(CLIENT, "T", force=False) == QUEUES[2:]
    assert await writable(CLIENT, "T", force=True) == QUEUES
    topic_with(monkeypatch, a=4, b=4)
    with pytest.raises(SandboxError, match=r"topic 'T' has perm 4: clients cannot send there.* --force"):
        await writable(CLIENT, "T", force=False)
    assert await writable(CLIENT, "T", force=True) == QUEUES


def test_what_messages_are_like() -> None:
    entry = Shape(size=200, keys="k-{n}-x", tag="blue").entry(7)
    assert b"KEYS\x01k-7-x\x02" in entry
    assert b"TAGS\x01blue" in entry
    assert entry.count(b"x") > 150


@pytest.mark.parametrize(
    ("text", "start"), [("earliest", "earliest"), ("latest", "latest"), ("1970-01-01T00:00:01Z", 1000)]
)
def test_where_reading_begins(text: str, start: str | int) -> None:
    assert start_of(text) == start


def test_no_time() -> None:
    with pytest.raises(ConfigError, match="--from 'yesterday' is not a time"):
        start_of("yesterday")
