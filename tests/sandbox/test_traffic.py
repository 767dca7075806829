"""Which cluster a command is about, how fast messages are sent, and where they go; brokers are fakes here."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.errors import ConfigError, SandboxError
from replicator.protocol.batch import size_of
from replicator.sandbox import traffic
from replicator.sandbox.state import State
from replicator.sandbox.traffic import Place, Shape, choose, produce, start_of

pytestmark = pytest.mark.usefixtures("sent")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> dict[Place, int]:
    """How many messages each queue has got."""
    found: dict[Place, int] = {}

    async def send_batch(broker: str, fields: dict[str, str], body: list[bytes]) -> None:
        place = Place(broker, int(fields["e"]))
        found[place] = found.get(place, 0) + len(body)
        assert all(size_of(entry, 0) == len(entry) for entry in body)

    async def places(_client: object, _topic: str) -> list[Place]:
        return [Place(broker, i) for broker in ("a", "b") for i in range(2)]

    monkeypatch.setattr(traffic, "send_batch", send_batch)
    monkeypatch.setattr(traffic, "places", places)
    return found


CLIENT: Any = SimpleNamespace(writer=lambda broker: broker)


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
    steps = [step async for step in produce(CLIENT, "T", Shape(), count=2500, rate=0)]
    assert steps == [1000, 2000, 2500]
    assert sent == dict.fromkeys([Place("a", 0), Place("a", 1), Place("b", 0), Place("b", 1)], 625)


async def test_at_a_rate(sent: dict[Place, int]) -> None:
    """No more than was due at any time."""
    clock = asyncio.get_running_loop().time
    began = clock()
    async for step in produce(CLIENT, "T", Shape(), count=60, rate=200):
        assert step <= (clock() - began) * 200
    assert sum(sent.values()) == 60


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
