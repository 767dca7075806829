"""Brokers with small files and small messages, whose retention deletes as soon as it is told to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from replicator.client.brokers import min_offset
from replicator.client.endpoint import Endpoint
from replicator.sandbox import Cluster, ClusterSpec
from tests.support.traffic import (
    configured,
    connected,
)
from tests.support.worker import until

__all__ = ["NARROW", "NARROW_49", "TINY_FILES", "expire", "oldest", "retention"]

TINY_FILES = {
    "mappedFileSizeCommitLog": "1048576",
    "cleanResourceInterval": "1000",
    "deleteConsumeQueueFilesInterval": "10",
    "deleteCommitLogFilesInterval": "10",
    "maxMessageSize": "262144",
}
NARROW = ClusterSpec(name="narrow", version="5.5.0", properties=TINY_FILES | {"maxMessageSize": "65536"})
NARROW_49 = ClusterSpec(name="narrow", version="4.9.7", properties=TINY_FILES | {"maxMessageSize": "65536"})


async def oldest(source: Cluster, topic: str) -> int:
    """The least offset of queue 0 on the first broker."""
    async with connected(source) as client:
        return await min_offset(client.master(source.brokers[0].name), topic, 0)


async def expire(source: Cluster, topic: str, *, before: int) -> int:
    """Has the source delete what it can, as retention would; gives the queue's new oldest offset.

    It may delete a few files more afterwards: it deletes ten at a time, and corrects consume queues behind that.
    """

    async def moved(broker: Endpoint) -> int:
        least = await min_offset(broker, topic, 0)
        return least if least > before else 0

    return int(await retention(source, moved))


async def retention(source: Cluster, done: Callable[[Endpoint], Awaitable[Any]]) -> Any:
    """Has the first broker delete all that it can until `done` of it is true, and gives that."""
    async with connected(source) as client:
        broker = client.master(source.brokers[0].name)

        async def deleted() -> Any:
            await broker.ask(329, {})  # delete expired commit logs
            return await done(broker)

        async with configured(source, fileReservedTime=0):
            return await until(deleted, seconds=150, what="retention")
