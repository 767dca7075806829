"""Two brokers come back with each other's address, as with recycled IPs: queues stay where they are."""

from __future__ import annotations

from replicator.sandbox import ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.scene import TARGET, SceneOf
from tests.support.swapped import swap
from tests.support.worker import until

BEFORE, AFTER = 400, 200


PAIR = ClusterSpec(name="swapping", version="5.3.3", brokers=2)


async def test_at_the_target(scene: SceneOf, clusters: ClusterPool) -> None:
    """Nothing is sent to a broker, nor read there, before it has said which one it is; under traffic.

    The name servers' new answer comes late.
    """
    spec = ClusterSpec(name="swapped", version="5.3.3", brokers=2)
    async with (
        clusters.fresh(PAIR) as source,
        clusters.fresh(spec) as target,
        scene(source=source, target=target, queues=2) as here,
        here.worker("--standalone", "--metadata-refresh-interval", "15") as worker,
    ):
        await here.produce(BEFORE)
        await worker.caught_up(here.topic, BEFORE)
        async with here.producer(per_second=100) as producer:
            await until(lambda: worker.has_copied(here.topic, BEFORE + 50))
            await swap(target)
            before = worker.topic(here.topic)["copied"]
            await until(lambda: worker.has_copied(here.topic, before + 200), seconds=120)
        await here.assert_clean_soon(BEFORE + producer.acknowledged)
        assert worker.topic(here.topic)["foreign"] == 0
        assert worker.metric("audit_differences_total") == 0


async def test_at_the_source(scene: SceneOf, clusters: ClusterPool) -> None:
    """No broker's messages are taken for another's."""
    async with (
        clusters.fresh(PAIR) as source,
        scene(source=source, target=TARGET, queues=2) as here,
        here.worker("--standalone") as worker,
    ):
        await here.produce(BEFORE)
        await worker.caught_up(here.topic, BEFORE)
        await swap(source)
        await here.produce(AFTER, start=BEFORE)
        await here.assert_clean_soon(BEFORE + AFTER)
        topic = worker.topic(here.topic)
        assert (topic["gap_messages"], topic["duplicates"], topic["foreign"]) == (0, 0, 0)
        assert worker.metric("source_resets_total") == 0
