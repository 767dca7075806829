"""Where a message is on the other side: by the offset map, by the copies where that does not reach, and by key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.admin import message_lookup
from replicator.admin.message_lookup import NotACopy, by_key, by_offset
from replicator.metadata import offset_map_scan
from replicator.routing.provenance import Stamp
from replicator.routing.queue_map import Queue
from replicator.state.connector_configs import Unknown
from tests.ranges.target_queue import message

SOURCE, TARGET = Queue("a", 0), Queue("x", 1)
CONNECTOR: Any = SimpleNamespace(name="route")


def copy(offset: int, at: int, *, cluster: str = "east", key: str = "") -> Any:
    """The copy of a source message, at an offset of the target queue."""
    of = message(offset, properties=f"KEYS\x01{key}\x02".encode())
    (properties,) = Stamp(cluster, "a", 0).put([of])
    return message(at, properties=properties)


class Cluster:
    """A worker that has copied [0, 10) of the source queue; the map knows [5, 10), and 3 is foreign."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.there = [copy(at if at < 3 else at - 1, at) if at != 3 else message(3) for at in range(11)]
        self.found: list[Any] = []
        self.queue_map = {SOURCE: TARGET}
        self.asked: list[str] = []
        self.floor = 0
        self.held: Any = {"target": "x/1", "intervals": [[5, 6, 5]], "target_floor": 0}
        for module in (message_lookup, offset_map_scan):
            monkeypatch.setattr(module, "read_range", self.read_range)
        monkeypatch.setattr(message_lookup, "pull_with_host", self.pull_with_host)
        monkeypatch.setattr(message_lookup, "min_offset", self.first)
        monkeypatch.setattr(message_lookup, "max_offset", self.end)
        monkeypatch.setattr(message_lookup, "query", self.query)
        monkeypatch.setattr(message_lookup, "is_about", lambda held, target: held["target"] == "x/1")

    @property
    def worker(self) -> Any:
        return SimpleNamespace(
            store=SimpleNamespace(
                queue_map=lambda *_: self.queue_map,
                progress=lambda *_: (None, self.held),
                target_topic=lambda *_: "T-there",
            ),
            identity=SimpleNamespace(source="east"),
            context=SimpleNamespace(target=SimpleNamespace(cluster=SimpleNamespace(reader=lambda name: name))),
        )

    async def read_range(self, _: str, topic: str, queue_id: int, start: int, stop: int) -> AsyncIterator[Any]:
        assert (topic, queue_id) == ("T-there", 1)
        for each in self.there[start:stop]:
            yield each

    async def pull_with_host(self, broker: str, topic: str, queue_id: int, offset: int) -> tuple[None, Any, str]:
        assert (broker, topic, queue_id) == ("x", "T-there", 1)
        return None, self.there[offset] if offset < len(self.there) else None, "10.0.0.3:51234"

    async def first(self, *_: object) -> int:
        return 0

    async def end(self, *_: object) -> int:
        return len(self.there)

    async def query(self, broker: str, topic: str, key: str) -> list[Any]:
        assert (topic, key) == ("T-there", "k")
        self.asked.append(broker)
        return self.found if broker == "x" else []


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


@pytest.mark.parametrize(("source", "target"), [(0, 0), (2, 2), (3, 4), (5, 6), (9, 10)])
async def test_a_message_is_found_from_both_sides(cluster: Cluster, source: int, target: int) -> None:
    """Where the map has forgotten it, too."""
    found = await by_offset(cluster.worker, CONNECTOR, "T", SOURCE, source, "source")
    assert found == {"topic": "T-there", "broker": "x", "queue": 1, "offset": target}
    back = await by_offset(cluster.worker, CONNECTOR, "T", TARGET, target, "target")
    assert back == {"topic": "T", "broker": "a", "queue": 0, "offset": source}


@pytest.mark.parametrize(
    "written",
    [message(3, properties=b"KEYS\x01k\x1b[2J\x02"), copy(3, 3, cluster="north", key="k")],
    ids=["own", "another's"],
)
async def test_a_message_of_somebody_else_says_whose_it_is(cluster: Cluster, written: Any) -> None:
    """With its properties, in which nothing changes what a terminal shows."""
    cluster.there[3] = written
    with pytest.raises(NotACopy, match=r"^offset 3 of x/1 is not a copy of this route: written by 10.0.0.3:") as it:
        await by_offset(cluster.worker, CONNECTOR, "T", TARGET, 3, "target")
    assert it.value.place == {"topic": "T-there", "broker": "x", "queue": 1, "offset": 3}
    assert it.value.hint.isprintable()
    assert "KEYS=" in it.value.hint


@pytest.mark.parametrize(("side", "queue", "offset"), [("source", SOURCE, 10), ("target", TARGET, 11)])
async def test_what_has_no_other_side(cluster: Cluster, side: str, queue: Queue, offset: int) -> None:
    """A message that is not copied yet, and one that is not there."""
    with pytest.raises(Unknown, match="is not known on the other side"):
        await by_offset(cluster.worker, CONNECTOR, "T", queue, offset, side)


async def test_what_lies_before_the_floor_is_of_a_topic_that_was_deleted(cluster: Cluster) -> None:
    """So is all that a queue has whose copies are to begin at another place."""
    cluster.held["target_floor"] = 4
    with pytest.raises(Unknown):
        await by_offset(cluster.worker, CONNECTOR, "T", SOURCE, 2, "source")
    with pytest.raises(Unknown):
        await by_offset(cluster.worker, CONNECTOR, "T", TARGET, 2, "target")
    cluster.held["target"] = "y/0"
    found = await by_offset(cluster.worker, CONNECTOR, "T", SOURCE, 9, "source")
    assert found["offset"] == 10, "read from the copies, not from a map about another queue"


async def test_a_queue_that_is_not_copied(cluster: Cluster) -> None:
    with pytest.raises(Unknown, match="no queue b/0 of topic 'T' is copied"):
        await by_offset(cluster.worker, CONNECTOR, "T", Queue("b", 0), 0, "source")


async def test_copies_are_found_by_their_key(cluster: Cluster) -> None:
    """An index has hashes: what has another key, is not a copy, or comes from elsewhere is left out."""
    cluster.found = [
        copy(7, 8, key="k"),
        copy(8, 9, key="other k2"),
        message(3),
        copy(9, 10, key="k", cluster="north"),
    ]
    (found,) = await by_key(cluster.worker, CONNECTOR, "T", "k")
    assert found["source"] == {"topic": "T", "broker": "a", "queue": 0, "offset": 7}
    assert found["target"] == {"topic": "T-there", "broker": "x", "queue": 1, "offset": 8}
    cluster.found = []
    with pytest.raises(Unknown, match="the target has no copy with key 'k'"):
        await by_key(cluster.worker, CONNECTOR, "T", "k")


async def test_a_copy_of_before_its_queue_was_moved_has_no_known_place(cluster: Cluster) -> None:
    """It is still at the broker where the queue was; what comes now goes to another one."""
    cluster.queue_map = {SOURCE: Queue("y", 0), Queue("a", 1): TARGET}
    cluster.found = [copy(7, 8, key="k")]
    with pytest.raises(Unknown, match="the target has no copy with key 'k'"):
        await by_key(cluster.worker, CONNECTOR, "T", "k")
    assert cluster.asked == ["x", "y"]
