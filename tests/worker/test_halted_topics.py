"""Who tells of topics whose connector is paused: one worker of all their queues, and until then who copied them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replicator.routing.queue_map import Queue
from replicator.routing.state import Phase
from replicator.state.connector_configs import Connectors, State
from replicator.state.store import Store
from replicator.worker.halted_topics import still_to_tell, told_whole


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """A route that is paused, with a topic of two queues."""
    store = Store(tmp_path)
    connectors = Connectors(store)
    connectors.create("route", {"topics": ["orders"]})
    connectors.set_state("route", State.PAUSED)
    queues = {Queue("a", n): Queue("x", n) for n in range(2)}
    store.save_queue_map("route", "orders", "orders", queues)
    yield store
    store.close()


def told(state: Phase, *, queues: int = 2, topic: str = "orders") -> dict[str, Any]:
    return {"connector": "route", "topic": topic, "state": state, "queues": queues}


def test_one_tells_of_all_once_it_has_looked(store: Store) -> None:
    connectors = Connectors(store).all()
    part, whole = told(Phase.PAUSED, queues=1), told(Phase.PAUSED)
    assert told_whole([told(Phase.RUNNING), part], store, connectors) == {}
    assert told_whole([told(Phase.RUNNING), whole], store, connectors) == {("route", "orders"): whole}
    assert told_whole([told(Phase.STOPPED)], store, connectors) == {}, "that was before"


def test_what_was_copied_is_told_until_then(store: Store) -> None:
    connectors, before = Connectors(store), [told(Phase.RUNNING)]
    for others in ([], [told(Phase.PAUSED, queues=1)]):
        assert still_to_tell(before, [], others, store, connectors.all()) == before
    assert still_to_tell(before, [], [told(Phase.PAUSED)], store, connectors.all()) == []
    assert still_to_tell(before, [told(Phase.PAUSED)], [], store, connectors.all()) == [], "it looks itself"
    assert still_to_tell([told(Phase.RUNNING, topic="gone")], [], [], store, connectors.all()) == []
    connectors.set_state("route", State.RUNNING)
    assert still_to_tell(before, [], [], store, connectors.all()) == [], "another copies them now"
