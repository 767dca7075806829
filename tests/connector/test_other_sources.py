"""Which queues of a target topic hold copies from our source, by what others may have written there, too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replicator.connector import other_sources
from replicator.connector.other_sources import OtherSources
from replicator.routing.options import Identity
from replicator.routing.provenance import Provenance
from replicator.routing.queue_map import Queue
from replicator.settings import RouteSettings


@pytest.mark.parametrize(("queue_id", "ours"), [(3, True), (16_383, True), (16_384, False), (2**31 - 1, False)])
async def test_a_copy_of_a_queue_that_no_topic_has(
    monkeypatch: pytest.MonkeyPatch, queue_id: int, *, ours: bool
) -> None:
    """Somebody has forged it: no queue map, which would not be read again, is made of it."""

    async def last_copy(_broker: object, _topic: str, _queue_id: int, *, look_back: int) -> Provenance:
        assert look_back
        return Provenance("east", "east", "a", queue_id, 5, 7)

    monkeypatch.setattr(other_sources, "last_copy", last_copy)
    context: Any = SimpleNamespace(
        target=SimpleNamespace(cluster=SimpleNamespace(master=lambda name: name)),
        identity=Identity("east", "west"),
    )
    found = await OtherSources(RouteSettings(), context).read("T", [Queue("x", 0)])
    assert found.ours == ({Queue("a", queue_id): Queue("x", 0)} if ours else {})
    assert not found.others


@pytest.mark.parametrize("offsets", [(5, 9), (9, 5)])
async def test_a_queue_that_was_moved_goes_on_at_its_new_place(
    monkeypatch: pytest.MonkeyPatch, offsets: tuple[int, int]
) -> None:
    """The broker that was given up is back, with the copies that it had; nobody remembers that."""

    async def last_copy(_broker: object, _topic: str, queue_id: int, *, look_back: int) -> Provenance:
        return Provenance("east", "east", "a", 0, offsets[queue_id], 7)

    monkeypatch.setattr(other_sources, "last_copy", last_copy)
    context: Any = SimpleNamespace(
        target=SimpleNamespace(cluster=SimpleNamespace(master=lambda name: name)),
        identity=Identity("east", "west"),
    )
    found = await OtherSources(RouteSettings(), context).read("T", [Queue("x", 0), Queue("x", 1)])
    assert found.ours == {Queue("a", 0): Queue("x", offsets.index(9))}


async def test_copies_of_topics_that_have_one_name_at_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies do not name their topic: the source tells whose they are."""
    stored = {("T", 0): 7, ("U", 0): 9}

    async def last_copy(_broker: object, _topic: str, queue_id: int, *, look_back: int) -> Provenance:
        return Provenance("east", "east", "a", 0, 0, [7, 9, 11][queue_id])

    async def message_at(_broker: object, topic: str, queue_id: int, offset: int) -> Any:
        assert offset == 0
        return SimpleNamespace(store_timestamp=stored[topic, queue_id])

    monkeypatch.setattr(other_sources, "last_copy", last_copy)
    monkeypatch.setattr(other_sources, "message_at", message_at)
    context: Any = SimpleNamespace(
        source=SimpleNamespace(
            cluster=SimpleNamespace(reader=lambda name: name),
            topics={"a": dict.fromkeys("TU", SimpleNamespace(queues=1))},
        ),
        target=SimpleNamespace(cluster=SimpleNamespace(master=lambda name: name)),
        identity=Identity("east", "west"),
    )
    queues = [Queue("x", n) for n in range(3)]
    for topic, queue_id in (("T", 0), ("U", 1)):
        found = await OtherSources(RouteSettings(), context).read("S", queues, of=topic)
        assert found.ours == {Queue("a", 0): Queue("x", queue_id)}
        assert found.untold == {*queues} - {Queue("x", queue_id)}
