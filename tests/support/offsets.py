"""Consumer groups in tests: made, moved and read by the project's own client."""

from __future__ import annotations

from collections.abc import Mapping

from replicator.client.groups import delete_group, read_groups, write_group
from replicator.client.offsets import commit_offset, read_offsets
from replicator.sandbox import Cluster
from tests.support.traffic import connected

__all__ = ["are_at", "commit", "drop_group", "make_group", "offsets_of"]

Lane = tuple[str, int]


async def make_group(cluster: Cluster, group: str, **settings: object) -> None:
    """Makes `group` on every broker, with what brokers give to a new one unless `settings` say otherwise."""
    async with connected(cluster) as client:
        for broker in client.brokers():
            known = (await read_groups(client.master(broker))).groups["TOOLS_CONSUMER"]
            await write_group(client.writer(broker), {**known, "attributes": {}, **settings, "groupName": group})


async def drop_group(cluster: Cluster, group: str) -> None:
    """Deletes `group` on every broker."""
    async with connected(cluster) as client:
        for broker in client.brokers():
            await delete_group(client.writer(broker), group)


async def commit(cluster: Cluster, group: str, topic: str, offsets: Mapping[Lane, int]) -> None:
    """Says what `group` has consumed, as its consumers would."""
    async with connected(cluster) as client:
        for (broker, queue_id), offset in offsets.items():
            await commit_offset(client.writer(broker), group, topic, queue_id, offset)


async def offsets_of(cluster: Cluster, group: str, topic: str) -> dict[Lane, int]:
    """Where `group` is in each queue that it has an offset of."""
    found: dict[Lane, int] = {}
    async with connected(cluster) as client:
        for broker in client.brokers():
            table = await read_offsets(client.master(broker))
            found |= {(broker, queue): at for queue, at in table.offsets.get((group, topic), {}).items()}
    return found


async def are_at(cluster: Cluster, group: str, topic: str, wanted: Mapping[Lane, int]) -> bool:
    """Whether these are all offsets of `group`."""
    return await offsets_of(cluster, group, topic) == wanted
