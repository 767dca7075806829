"""Places of a group in several queues of a topic are one line."""

from __future__ import annotations

from dataclasses import replace

from replicator.metadata.group_standings import group_standings
from tests.metadata.test_offsets import place


async def test_what_pop_consumers_hold_is_summed_up_over_queues() -> None:
    """With each reason once why a failover would leave the group before it."""
    at = place({i: i for i in range(10)}, 3, 3)
    put = replace(at, in_flight=2, to_retry_topic=2)
    left = replace(at, in_flight=3, acknowledged_after=4, held_back_by="it has consumers at the target")
    (group,) = await group_standings([put, left, left])
    assert (group["in_flight"], group["to_retry_topic"], group["acknowledged_after"]) == (8, 2, 8)
    assert group["held_back_by"] == ["it has consumers at the target"]
