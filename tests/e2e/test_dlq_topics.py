"""What groups have given up comes along where that is asked for, and what they give up at the target comes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from replicator.client.groups import read_groups
from replicator.client.pull import pull_fields
from replicator.protocol import properties
from replicator.protocol.codes import Request
from replicator.routing import provenance
from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.offsets import make_group
from tests.support.readiness import asked
from tests.support.traffic import connected, create_topic, produce, raw_topic, topics_of
from tests.support.worker import SYNC_QUICKLY, Worker, until

EAST, WEST = ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.5.0")
#: Where the offset in the commit log is in a stored message (`MessageDecoder`).
_PHYSICAL: Final = slice(28, 36)


async def test_dead_letters_come_along_and_back(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    topic, group = topic_name("t"), topic_name("g")
    dlq = f"%DLQ%{group}"
    source, target = await clusters.pair(EAST, WEST)
    await create_topic(source, topic, queues=1)
    await make_group(source, group)
    await produce(source, topic, 5)
    for offset in (0, 3):
        await _give_up(source, topic, group, offset)
    flags = ("--topics", topic, "--sync-groups", group, "--rename", "{topic}", *SYNC_QUICKLY)
    async with Worker(source, target, tmp_path / "without", *flags) as worker:
        await worker.caught_up(topic, 5)
        assert dlq not in (await topics_of(target))["west-a"]
        left = (await asked(worker, "GET", "readiness"))["pending"]["messages"]
        assert left == [{"topic": dlq, "kind": "dead-letter", "messages": 2, "parked": None}]
    async with Worker(source, target, tmp_path / "there", "--dlq-topics", *flags) as worker:
        await worker.caught_up(dlq, 2)
        await until(lambda: _knows(target, group))
        await _give_up(target, topic, group, 1)
        await worker.caught_up(dlq, 2)
        await until(lambda: worker.topic(dlq)["foreign"] == 1)
        await until(lambda: worker.topic(dlq)["verified"] == 2, what="the audit has read them back")
        assert (worker.topic(dlq)["duplicates"], worker.topic(dlq)["audit_differences"]) == (0, 0)
    assert await _given_up(target, dlq) == [(b"0", 1, True), (b"3", 1, True), (b"1", 1, False)]

    async with Worker(target, source, tmp_path / "back", "--dlq-topics", *flags, group=topic_name("b")) as back:
        await back.caught_up(dlq, 1)
        assert back.topic(dlq)["copied"] == 1
    async with Worker(source, target, tmp_path / "there", "--dlq-topics", *flags) as worker:
        await worker.caught_up(dlq, 0)
    expected = [(b"0", 1), (b"3", 1), (b"1", 1)]
    for cluster in (source, target):
        assert [found[:2] for found in await _given_up(cluster, dlq)] == expected


async def _give_up(cluster: Cluster, topic: str, group: str, offset: int) -> None:
    """As a consumer that failed on a message for the last time: the broker puts it into the dead-letter topic."""
    async with connected(cluster) as client:
        master = client.master(cluster.brokers[0].name)
        pulled = await master.ask(Request.PULL_MESSAGE, pull_fields(topic, 0, offset, count=1))
        physical = int.from_bytes(bytes(pulled.body)[_PHYSICAL])
        told = {"offset": str(physical), "group": group, "delayLevel": "-1", "originTopic": topic}
        await master.ask(36, told)


async def _given_up(cluster: Cluster, dlq: str) -> list[tuple[bytes, int, bool]]:
    """What is in the topic: number, how often it was tried, and whether it is a copy."""
    ((_, messages),) = (await raw_topic(cluster, dlq)).items()
    return [
        (
            properties.decode(message.properties)["n"].encode(),
            message.reconsume_times,
            provenance.of(message, dlq) is not None,
        )
        for message in messages
    ]


async def _knows(cluster: Cluster, group: str) -> bool:
    async with connected(cluster) as client:
        return group in (await read_groups(client.master(cluster.brokers[0].name))).groups
