"""History that is no longer in the master's memory is read from its slave, where brokers are told to want that."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from replicator.client.connection import Connection
from replicator.protocol.codes import Request
from replicator.ranges.access import Access
from replicator.ranges.comparer import CompareJob, compare
from replicator.ranges.copier import copy_range
from replicator.ranges.copy_job import CopyJob, Range
from replicator.ranges.reader import RangeReader
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.queue_map import Queue
from replicator.sandbox import ClusterSpec
from tests.spark.waiting import settled
from tests.support.clusters import ClusterPool
from tests.support.scene import SceneOf
from tests.support.slaves import replicated
from tests.support.traffic import connected, create_topic

COUNT, SIZE = 6000, 2048
#: Pulls, of some 750: brokers give 8 messages each, since to them all is on disk. The master is read until its
#: slave has been looked at, which may take most of them on a busy machine.
SOME = 20
ON_DISK = {"slaveReadEnable": "true", "accessMessageInMemoryMaxRatio": "0"}


@pytest.fixture
def pulls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Pulls by the address that they went to."""
    asked, request = Counter[str](), Connection.request

    def counted(self: Connection, code: int, *given: Any, **more: Any) -> None:
        asked[self.address] += code == Request.PULL_MESSAGE
        request(self, code, *given, **more)

    monkeypatch.setattr(Connection, "request", counted)
    return asked


@pytest.mark.parametrize("version", ["5.3.3", "4.9.7"])
async def test_history_is_read_from_the_slave(
    clusters: ClusterPool, scene: SceneOf, pulls: Counter[str], version: str
) -> None:
    """By backfill, verify and whoever reads rows; a slave that stops serving costs nothing but time."""
    spec = ClusterSpec(name="history", version=version, slaves=True, properties=ON_DISK)
    async with clusters.fresh(spec) as source, scene(source=source, queues=1) as here:
        await here.produce(COUNT, size=SIZE)
        await settled(here.source, here.topic, COUNT)
        await create_topic(here.target, here.topic, queues=1)
        (master,) = source.brokers
        slave = await replicated(source, here.topic, COUNT)
        sides: dict[str, Any] = {
            "source": Access(namesrv=(here.source.namesrv,)),
            "target": Access(namesrv=(here.target.namesrv,)),
            "options": RouteOptions(identity=Identity("east", "west"), settle_timeout=0.0),
        }
        queue = Queue(master.name, 0)
        part = Range(here.topic, queue, here.topic, Queue(here.target.brokers[0].name, 0), 0, COUNT)

        assert (await copy_range(CopyJob(**sides, memory_bytes=8 * 1024**2), part)).copied == COUNT
        assert pulls[slave.address] > SOME
        await settled(here.target, here.topic, COUNT)
        await here.assert_clean(COUNT)
        pulls.clear()
        outcome = await compare(CompareJob(**sides, complete=True), part)
        assert (outcome.counts, outcome.error) == ({}, "")
        assert pulls[slave.address] > SOME

        pulls.clear()
        read, read_by_then = list[int](), 0
        async with connected(here.source) as client:
            async for messages in RangeReader(client, here.topic, queue, 0, COUNT).chunks():
                if not read_by_then and pulls[slave.address] > SOME:
                    read_by_then = len(read)
                    if version < "5":
                        await slave.kill()
                    else:
                        slave.pause()
                read += [message.queue_offset for message in messages]
        assert 0 < read_by_then < COUNT
        assert read == list(range(COUNT))
