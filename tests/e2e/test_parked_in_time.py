"""What is parked is released when it is due, to two seconds; also a timer that the source's broker has put off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from replicator.client.system_topics import TIMER_TOPIC
from replicator.protocol import properties
from replicator.sandbox import Cluster, ClusterSpec
from tests.e2e.test_parked_messages import FLAGS, are_parked, is_mirrored
from tests.support.clusters import ClusterPool
from tests.support.readiness import asked, health
from tests.support.traffic import create_topic, raw_topic
from tests.support.waiting import send_waiting
from tests.support.worker import Worker, until

pytestmark = pytest.mark.timeout(300)

#: Seconds until the last message is due, and those that a slot of the broker's wheel may be ahead: it puts what is
#: further off into its store again.
_LAST: Final = 75
_WINDOW: Final = 15
_COUNT: Final = 10
#: Seconds.
_TOLERANCE: Final = 2.0


@pytest.mark.parametrize("version", ["5.5.0", "4.9.7"])
async def test_each_is_there_when_it_is_due(
    version: str, clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """One that was due before the failover is there as soon as that is over."""
    topic = topic_name("t")
    target = await clusters.get(ClusterSpec(name="west", version=version))
    rolling = {"timerRollWindowSlot": str(_WINDOW)}
    async with clusters.fresh(ClusterSpec(name="east", version="5.3.3", properties=rolling)) as source:
        await create_topic(source, topic, queues=2)
        flags = ("--topics", topic, *FLAGS)
        now = round(time.time())
        due = {f"{n}": now + _LAST - 2 * n for n in range(_COUNT)} | {"over": now + _WINDOW + 15}
        async with Worker(source, target, tmp_path / "old", *flags) as old:
            for body, seconds in due.items():
                await send_waiting(source, topic, [body], deliver_ms=seconds * 1000)
            await until(lambda: are_parked(target, topic, {TIMER_TOPIC: len(due)}), what="all are parked")
            await until(lambda: is_mirrored(target, topic), what="the target knows of the route's topic")
            await until(lambda: _rolled(source, topic, len(due)), what="the broker has put them off")
            await old.kill()
        for node in source.nodes:
            await node.kill()
        await asyncio.sleep(max(0.0, due["over"] + 1 - time.time()))
        async with Worker(source, target, tmp_path / "new", *flags) as new:
            await until(lambda: "the source is away" in health(new)[1].get("worker", ""), what="it stands by")
            await until(lambda: new.ask("GET", "/connectors/route/status")[0] == 200, what="the route is known")
            report = await asked(new, "POST", "failover", {"source_dead": True})
            over = time.time()
            assert report["released"]["not_released"] == [], report
            await until(lambda: _are_there(target, topic, len(due)), seconds=90)
            await asyncio.sleep(_TOLERANCE)  # within which a message that comes twice would
            found = await _stored(target, topic)
        assert len(found) == len(due), "each once"
        late = {body: at - (over if body == "over" else due[body]) for body, at in found}
        assert late.keys() == due.keys()
        assert late.pop("over") < _TOLERANCE
        assert all(abs(seconds) <= _TOLERANCE for seconds in late.values()), late


async def _rolled(source: Cluster, topic: str, count: int) -> bool:
    """Whether the source's timer has stored messages of `topic` more often than they were sent."""
    stored = [m for messages in (await raw_topic(source, TIMER_TOPIC)).values() for m in messages]
    of_topic = [m for m in stored if properties.find(m.properties, b"REAL_TOPIC") == topic.encode()]
    return len(of_topic) >= 2 * count - 1


async def _stored(target: Cluster, topic: str) -> list[tuple[str, float]]:
    """Each message that is there, and when the target has stored it, in seconds since the epoch."""
    queues = (await raw_topic(target, topic)).values()
    return [(m.content.decode(), m.store_timestamp / 1000) for messages in queues for m in messages]


async def _are_there(target: Cluster, topic: str, count: int) -> bool:
    return len(await _stored(target, topic)) >= count
