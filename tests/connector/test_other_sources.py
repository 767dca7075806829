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
    found = await OtherSources(RouteSettings(), context).look("T", [Queue("x", 0)])
    assert found.ours == ({Queue("a", queue_id): Queue("x", 0)} if ours else {})
    assert not found.others
