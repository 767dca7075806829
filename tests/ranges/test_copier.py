"""The copy of a range and what it is read with, without Spark: ends, gaps, attempts that die on the way."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from replicator.client.cluster import Cluster as Client
from replicator.client.pull import Subscription
from replicator.ranges.access import Access
from replicator.ranges.copier import copy_range
from replicator.ranges.copy_job import CopyFailed, CopyJob, CopyOutcome, Range
from replicator.ranges.reader import RangeReader
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.queue_map import Queue
from tests.spark.waiting import ends, settled
from tests.support.scene import Scene, SceneOf
from tests.support.traffic import connected, create_topic, judge, remove_topic
from tests.support.worker import until


def job_of(scene: Scene, **more: object) -> CopyJob:
    options = RouteOptions(
        identity=Identity("east", "west"), batch_messages=100, batch_bytes=1024**2, settle_timeout=0.2
    )
    return CopyJob(
        source=Access(namesrv=(scene.source.namesrv,)),
        target=Access(namesrv=(scene.target.namesrv,)),
        options=options,
        memory_bytes=8 * 1024**2,
        **more,  # type: ignore[arg-type]
    )


async def ranges_of(scene: Scene, end: int) -> list[Range]:
    """[0, `end`) of four queues of the topic, which is made at the target too."""
    await create_topic(scene.target, scene.topic)
    here, there = scene.source.brokers[0].name, scene.target.brokers[0].name
    return [Range(scene.topic, Queue(here, i), scene.topic, Queue(there, i), 0, end) for i in range(4)]


async def copy_all(job: CopyJob, parts: list[Range]) -> list[CopyOutcome]:
    return list(await asyncio.gather(*(copy_range(job, part) for part in parts)))


async def test_a_range_ends_where_it_should(scene: SceneOf) -> None:
    """Not a message behind its end; the next range goes on there, and a second attempt has nothing to do."""
    async with scene() as here:
        await here.produce(4000)
        parts = await ranges_of(here, 777)
        done = await copy_all(job_of(here), parts)
        assert [(each.copied, each.before, each.last) for each in done] == [(777, 0, 776)] * 4
        again = await copy_all(job_of(here), parts)
        assert [(each.copied, each.before) for each in again] == [(0, 777)] * 4
        rest = await copy_all(job_of(here), [Range(*msgs(part), 777, 1000) for part in parts])
        assert [each.copied for each in rest] == [223] * 4
        await here.assert_clean(4000)


def msgs(part: Range) -> tuple[str, Queue, str, Queue]:
    return part.topic, part.source, part.target_topic, part.target


async def test_an_attempt_that_dies_on_the_way_is_made_again(scene: SceneOf) -> None:
    """Cancelled in mid-send, again and again: nothing lost, nothing twice, order kept."""
    async with scene() as here:
        await here.produce(8000)
        parts = await ranges_of(here, 2000)
        job = job_of(here, rate_messages=1000)
        for _ in range(3):
            before = sum(await ends(here.target, here.topic))
            tries = [asyncio.create_task(copy_range(job, part)) for part in parts]
            await until(partial(_grown, here, before), what="copies")
            for each in tries:
                each.cancel()
            await asyncio.gather(*tries, return_exceptions=True)
        verdict = await judge(here.source, here.target, here.topic)
        assert 0 < verdict.copies < 8000
        done = await copy_all(job_of(here), parts)
        assert sum(each.before for each in done) >= verdict.copies  # a broker may tell the last ones late
        assert sum(each.before + each.copied for each in done) == 8000
        assert sum(each.duplicates for each in done) == 0
        await here.assert_clean(8000)


async def test_nothing_is_copied_where_the_broker_does_not_understand_the_filter(scene: SceneOf) -> None:
    """Such as an older one that joined later: to pulls it would give all messages."""
    async with scene() as here:
        await here.produce(100)
        parts = await ranges_of(here, 25)
        job = job_of(here, stall_timeout=1.0)
        job = replace(job, options=replace(job.options, subscription=Subscription("SQL92", "n >= AND")))
        with pytest.raises(CopyFailed, match=r"refused CHECK_CLIENT_CONFIG \(46\)"):
            await copy_range(job, parts[0])
        assert sum(await ends(here.target, here.topic)) == 0


async def _grown(here: Scene, before: int) -> bool:
    return sum(await ends(here.target, here.topic)) > before


async def test_what_the_source_has_lost_is_counted_or_stops_it(scene: SceneOf) -> None:
    """By the route's `on_gap`."""
    async with scene() as here:
        await here.produce(400)
        await settled(here.source, here.topic, 400)
        (part, *_) = await ranges_of(here, 100)
        job = job_of(here, stall_timeout=2.0)
        with pytest.raises(CopyFailed, match="no progress at offset 100"):
            await copy_range(job, Range(*msgs(part), 0, 150))  # it never had so many
        strict = replace(job, options=replace(job.options, on_gap="fail"))
        with pytest.raises(CopyFailed, match="truncated"):
            await copy_range(strict, Range(*msgs(part), 500, 600))


async def read_all(client: Client, reader: RangeReader) -> list[int]:
    return [message.queue_offset async for chunk in reader.chunks() for message in chunk]


async def test_a_range_is_read_to_its_end(scene: SceneOf) -> None:
    """In order, from anywhere; what is not there is an error or counted."""
    async with scene(queues=1) as here:
        await here.produce(3000)
        await settled(here.source, here.topic, 3000)
        queue = Queue(here.source.brokers[0].name, 0)
        async with connected(here.source) as client:
            for start, end in ((0, 3000), (17, 18), (1000, 2500), (5, 5)):
                reader = RangeReader(client, here.topic, queue, start, end)
                assert await read_all(client, reader) == list(range(start, end))
            reader = RangeReader(client, here.topic, queue, 4000, 4100, on_loss="skip")
            assert await read_all(client, reader) == []
            assert reader.gaps == 100


async def test_nothing_is_put_behind_what_it_belongs_before(scene: SceneOf) -> None:
    """Where copies begin later than the range; not where only what a filter leaves out lies before them."""
    async with scene(queues=1) as here:
        await here.produce(300)
        (part, *_) = await ranges_of(here, 300)
        await copy_range(job_of(here), Range(*msgs(part), 100, 200))
        with pytest.raises(CopyFailed, match=r"begin with source offset 100, so that offset 0 would come after"):
            await copy_range(job_of(here), part)
        tagged = job_of(here)
        tagged = replace(tagged, options=replace(tagged.options, tags=frozenset({b"no-such-tag"})))
        assert (await copy_range(tagged, part)).copied == 0


async def test_a_recreated_topic_is_not_taken_for_the_old_one(scene: SceneOf) -> None:
    """Where it has fewer messages than were copied."""
    async with scene(queues=1) as here:
        await here.produce(300)
        (part, *_) = await ranges_of(here, 300)
        await copy_range(job_of(here), part)
        await remove_topic(here.source, here.topic)
        await create_topic(here.source, here.topic, queues=1)
        await here.produce(100)
        await settled(here.source, here.topic, 100)
        with pytest.raises(CopyFailed, match="ends at offset 100, and the target has copies to offset 299"):
            await copy_range(job_of(here), Range(*msgs(part), 0, 100))
