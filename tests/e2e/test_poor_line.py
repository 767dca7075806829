"""Over a line of 2 Mbit/s with 80 ms to and fro each message comes once, heartbeats are in time, and stalls pass.

`docs/WAN.md` says how much of the line long runs use.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from typing import Final, TypedDict

import pytest
import pytest_asyncio

from replicator.sandbox import ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.proxy import BrokerProxies
from tests.support.scene import SceneOf
from tests.support.worker import Worker, until


class Line(TypedDict):
    delay: float
    rate: float
    buffer: int


FAR = ClusterSpec(name="far", version="5.3.3", broker_ip="127.0.0.2")
NEAR = ClusterSpec(name="west", version="5.3.3")
#: Bytes a second each way, and the seconds of one way.
POOR: Final = Line(delay=0.04, rate=250_000, buffer=1 << 18)
GOOD: Final = Line(delay=0.0, rate=0.0, buffer=32 << 20)
COUNT, SIZE = 3000, 1000
#: Bytes that such a message has on the line at most, with its properties and those of a copy.
ON_THE_LINE = 1400
#: What of the line must be used at least, from the tenth message on.
USED: Final = 0.7
#: Seconds that nothing comes over the line: less than requests may take, and more.
SILENCE: Final = {"briefly": 20.0, "a-minute": 60.0}


@pytest_asyncio.fixture
async def line(clusters: ClusterPool) -> AsyncIterator[BrokerProxies]:
    """To the broker of `FAR`: a good one, until it is told to become poor."""
    far = await clusters.get(FAR)
    async with BrokerProxies(("127.0.0.2", far.brokers[0].port)) as proxies:
        yield proxies


def assert_nothing_piled_up(worker: Worker) -> None:
    assert "lease lost" not in worker.log
    assert not re.search(r"did not (answer|respond)|no answer", worker.log)


async def test_to_the_source(scene: SceneOf, line: BrokerProxies) -> None:
    async with scene(source=FAR, target=NEAR, queues=8) as here:
        await here.produce(COUNT, size=SIZE)
        line.become(**POOR)
        before = line.main.bytes_down
        async with here.worker() as worker:
            await until(lambda: worker.has_copied(here.topic, 10), what="it flows")
            began, passed = time.monotonic(), line.main.bytes_down
            await until(lambda: worker.has_copied(here.topic, COUNT), what="all is copied")
            used = (line.main.bytes_down - passed) / (time.monotonic() - began) / POOR["rate"]
            assert used > USED, f"{used:.2f} of the line"
            await worker.caught_up(here.topic, COUNT)
            assert line.main.bytes_down - before < 1.2 * ON_THE_LINE * COUNT
            assert_nothing_piled_up(worker)
        line.become(**GOOD)
        await here.assert_clean(COUNT)


async def test_to_the_target(scene: SceneOf, line: BrokerProxies) -> None:
    async with scene(source=NEAR, target=FAR, queues=8) as here:
        await here.produce(COUNT, size=SIZE)
        line.become(**POOR)
        before = line.vip.bytes_up
        async with here.worker() as worker:
            await until(lambda: worker.has_copied(here.topic, 10), what="it flows")
            began, passed = time.monotonic(), line.vip.bytes_up
            await until(lambda: worker.has_copied(here.topic, COUNT), what="all is copied")
            used = (line.vip.bytes_up - passed) / (time.monotonic() - began) / POOR["rate"]
            assert used > USED, f"{used:.2f} of the line"
            await worker.caught_up(here.topic, COUNT)
            assert line.vip.bytes_up - before < 1.2 * ON_THE_LINE * COUNT
            assert_nothing_piled_up(worker)
        line.become(**GOOD)
        await here.assert_clean(COUNT)


@pytest.mark.parametrize("silent", ["down", "up"])
@pytest.mark.parametrize("seconds", SILENCE.values(), ids=SILENCE)
async def test_one_way_is_silent_for_a_while(
    scene: SceneOf, line: BrokerProxies, seconds: float, silent: str
) -> None:
    await _is_silent(scene, line, seconds, silent, source=FAR, target=NEAR)


@pytest.mark.parametrize("silent", ["down", "up"])
async def test_one_way_to_the_target_is_silent_for_a_minute(
    scene: SceneOf, line: BrokerProxies, silent: str
) -> None:
    await _is_silent(scene, line, SILENCE["a-minute"], silent, source=NEAR, target=FAR)


async def _is_silent(
    scene: SceneOf, line: BrokerProxies, seconds: float, silent: str, *, source: ClusterSpec, target: ClusterSpec
) -> None:
    async with scene(source=source, target=target, queues=8) as here:
        await here.produce(COUNT, size=SIZE)
        line.become(**POOR)
        async with here.worker() as worker:
            await until(lambda: worker.has_copied(here.topic, COUNT // 10))
            before = worker.topic(here.topic)["copied"]
            for proxy in line.both:
                proxy.stall(up=silent == "up", down=silent == "down")
            await asyncio.sleep(seconds)  # how long a line is silent is what this is about
            for proxy in line.both:
                proxy.resume()
            more = before + COUNT // 3  # more than was on its way, and a third of what 15 s carry
            await until(lambda: worker.has_copied(here.topic, more, in_all=True), seconds=15, what="it flows again")
            await worker.caught_up(here.topic, 0)
        line.become(**GOOD)
        await here.assert_clean(COUNT)
