"""A source master dies, and its slave goes on serving until it is back."""

from __future__ import annotations

import pytest

from replicator.protocol import properties
from replicator.sandbox import ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.readiness import health
from tests.support.scene import SceneOf
from tests.support.slaves import replicated
from tests.support.traffic import raw_topic
from tests.support.worker import Worker, until

COUNT, MORE, SIZE = 5000, 100, 2048
#: A slave of 5.x may act as the master: it serves what only masters serve, and is listed as a slave all the same.
ACTING = {"enableSlaveActingMaster": "true", "enableRemoteEscape": "true"}

#: What may have been read ahead at most: the memory that is allowed, and what may come on top of it.
MOST_AHEAD = (1024**2 + 256 * 1024) // SIZE


def _read_at(worker: Worker) -> str:
    """The address that the only queue is pulled from since it last began to be."""
    *_, last = (event["source"] for event in worker.events if event["event"] == "copying")
    return str(last)


@pytest.mark.parametrize("version", ["5.3.3", "5.1.4", "4.9.7"])
async def test_a_slave_serves_when_the_master_is_gone(clusters: ClusterPool, scene: SceneOf, version: str) -> None:
    """What the master had replicated to it goes on being copied, far beyond what had been read by then.

    Once the master is back, it is read again.
    """
    spec = ClusterSpec(name="twin", version=version, slaves=True, properties=ACTING if version >= "5" else {})
    async with clusters.fresh(spec) as source, scene(source=source, queues=1) as route:
        await route.produce(COUNT, size=SIZE)
        (master,) = source.brokers
        slave = await replicated(source, route.topic, COUNT)
        flags = (
            "--rate-messages",
            "500",
            "--batch-messages",
            "50",
            "--memory-bytes",
            "1MiB",
            "--standalone",
            "--log-level",
            "debug",
        )
        async with route.worker(*flags) as worker:
            await until(lambda: worker.has_copied(route.topic, 200))
            await master.kill()
            read = worker.topic(route.topic)["copied"] + MOST_AHEAD
            assert read < COUNT / 2
            await worker.set_rates()
            await worker.caught_up(route.topic, COUNT, seconds=90)
            (queue,) = worker.queues(route.topic)
            assert queue["position"] == COUNT > read

            assert _read_at(worker) == slave.address
            await master.start()
            await until(lambda: _read_at(worker) == master.address)
            slave.pause()
            await route.produce(MORE, start=COUNT, size=SIZE)
            await worker.caught_up(route.topic, COUNT + MORE)
        (copies,) = (await raw_topic(route.target, route.topic)).values()
        assert [int(properties.decode(message.properties)["n"]) for message in copies] == list(range(COUNT + MORE))


async def test_a_worker_that_starts_while_there_is_no_master_waits(clusters: ClusterPool, scene: SceneOf) -> None:
    """It can read, but not write to its system topics; it goes on by itself when the master is back."""
    spec = ClusterSpec(name="twin", version="5.3.3", slaves=True)
    async with clusters.fresh(spec) as source, scene(source=source, queues=1) as route:
        await route.produce(MORE)
        (master,) = source.brokers
        async with route.worker() as worker:
            await worker.caught_up(route.topic, MORE)
            await replicated(source, route.topic, MORE)
            assert await worker.drain() == 0
            await master.kill()
            await worker.start()
            await until(lambda: "waiting for a broker that takes messages" in worker.log)
            assert health(worker)[0] == 503
            await master.start()
            await route.produce(MORE, start=MORE)
            await worker.caught_up(route.topic, MORE)
            assert await worker.drain() == 0
        await route.assert_clean(2 * MORE)
