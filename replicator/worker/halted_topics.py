"""What workers tell of topics whose connector is paused or stopped.

One worker tells of all their queues, once it has looked at them; until then those that have copied them tell what
they told last, so that no topic is without a lag for a moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from replicator.state.connector_configs import Connector, State
from replicator.state.store import Store

__all__ = ["Told", "still_to_tell", "told_whole"]

#: What a worker tells of a topic, and which one that is: of which connector.
Told = dict[str, Any]
Key = tuple[str, str]


def told_whole(told: Iterable[Told], store: Store, connectors: Mapping[str, Connector]) -> dict[Key, Told]:
    """Of what workers tell, what one of them tells of all queues of a topic that are halted."""
    found = {}
    for topic in told:
        connector = connectors.get(topic["connector"])
        if connector is None or connector.state is State.RUNNING or topic["state"] != connector.state:
            continue
        if topic["queues"] >= len(store.queue_map(connector.name, topic["topic"])):
            found[_key(topic)] = topic
    return found


def still_to_tell(
    before: Iterable[Told],
    now: Iterable[Told],
    others: Iterable[Told],
    store: Store,
    connectors: Mapping[str, Connector],
) -> list[Told]:
    """Of what this worker told `before`, what it goes on to tell beside what it has to tell `now`.

    Args:
        others: what the other workers tell.
    """
    known = {_key(topic) for topic in now}
    left = [
        topic
        for topic in before
        if (connector := connectors.get(topic["connector"])) is not None
        and connector.state is not State.RUNNING
        and _key(topic) not in known
        and store.queue_map(connector.name, topic["topic"])
    ]
    whole = told_whole(others, store, connectors) if left else {}  # at each status of a worker: mostly none is left
    return [topic for topic in left if _key(topic) not in whole]


def _key(topic: Told) -> Key:
    return topic["connector"], topic["topic"]
