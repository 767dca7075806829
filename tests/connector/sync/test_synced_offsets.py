"""What a failover without its source says of groups' offsets."""

from __future__ import annotations

import pytest

from replicator.client.offsets import OffsetTable
from replicator.connector.sync.synced_offsets import synced_offsets
from replicator.routing.plan import TopicPlan
from replicator.routing.queue_map import Queue

PLAN = TopicPlan(
    topic="orders",
    target_topic="copies",
    queue_map={Queue("a", n): Queue("x" if n < 2 else "y", n) for n in range(4)},
)
THERE = {
    "x": OffsetTable(
        {
            ("readers", "copies"): {0: 7, 1: 0, 5: 9},
            ("readers", "others"): {0: 1},
            ("locals", "copies"): {0: 3},
            ("left out", "copies"): {0: 3},
        },
        b"",
    ),
    "y": OffsetTable({("readers", "copies"): {2: 5}, ("idle", "others"): {0: 5}}, b""),
}


@pytest.mark.parametrize(
    ("synced", "found"), [({"readers", "idle", "left out"}, {"readers": 3}), ((), {"locals": 1, "readers": 3})]
)
def test_queues_of_each_group(synced: set[str], found: dict[str, int]) -> None:
    """Of the route's own queues; a group that was not synced has no offsets that were, if groups are synced."""
    told = synced_offsets(THERE, [PLAN], synced=synced, selects=lambda group: group != "left out", at=12.5)
    assert told == {"at": 12.5, "groups": [{"group": name, "queues": count} for name, count in found.items()]}


def test_a_time_that_is_not_known() -> None:
    assert synced_offsets({}, [PLAN], synced=(), selects=lambda _: True, at=0.0) == {"at": None, "groups": []}
