"""Brokers with small files and small messages, whose retention deletes as soon as it is told to."""

from __future__ import annotations

import asyncio

from replicator.client.brokers import min_offset
from replicator.sandbox import Cluster, ClusterSpec
from tests.support.traffic import (
    configured,
    connected,
)
from tests.support.worker import until

__all__ = ["NARROW", "NARROW_49", "TINY_FILES", "expire"]

TINY_FILES = {
    "mappedFileSizeCommitLog": "1048576",
    "cleanResourceInterval": "1000",
    "deleteConsumeQueueFilesInterval": "10",
    "deleteCommitLogFilesInterval": "10",
    "maxMessageSize": "262144",
}
NARROW = ClusterSpec(name="narrow", version="5.5.0", properties=TINY_FILES | {"maxMessageSize": "65536"})
NARROW_49 = ClusterSpec(name="narrow", version="4.9.7", properties=TINY_FILES | {"maxMessageSize": "65536"})


async def expire(source: Cluster, topic: str, *, before: int) -> int:
    """Has the source delete what it can, as retention would; gives the queue's new oldest offset."""
    async with connected(source) as client:
        broker = client.master(source.brokers[0].name)

        async def moved() -> int:
            await broker.ask(329, {})  # delete expired commit logs
            oldest = await min_offset(broker, topic, 0)
            return oldest if oldest > before else 0

        async def still() -> int:
            oldest = await min_offset(broker, topic, 0)
            await asyncio.sleep(2)  # it deletes ten files at a time, one each 0.1 s
            return oldest if oldest == await min_offset(broker, topic, 0) else 0

        async with configured(source, fileReservedTime=0):
            await until(moved, seconds=150, what="retention")
        return int(await until(still, what="retention is over"))
