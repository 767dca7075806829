"""Topics of kinds that cannot be copied exactly are named: by the route, in readiness, by `replicator doctor`."""

from __future__ import annotations

import json
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from replicator.sandbox import Cluster, ClusterSpec
from tests.e2e.test_doctor import doctor, told
from tests.support.clusters import ClusterPool
from tests.support.scene import SceneOf
from tests.support.traffic import connected, create_topic, raw_topic, send_alone, topics_of
from tests.support.worker import Worker, until

#: As `mqadmin updateStaticTopic` asks for it.
UPDATE_STATIC_TOPIC = 513
PRIORITY = {"message.type": "PRIORITY"}

Make = Callable[[Cluster, str], Awaitable[None]]


async def lite(cluster: Cluster, topic: str) -> None:
    """A topic of light queues that consumers come and go with."""
    await create_topic(cluster, topic, attributes={"message.type": "LITE"})


async def priority(cluster: Cluster, topic: str) -> None:
    """On each broker of the source a queue for each priority."""
    await create_topic(cluster, topic, attributes=PRIORITY)


async def compacted(cluster: Cluster, topic: str) -> None:
    """A topic that keeps the last message of each key."""
    await create_topic(cluster, topic, attributes={"cleanup.policy": "COMPACTION"})


async def static(cluster: Cluster, topic: str) -> None:
    """Each broker has two queues of it, numbered through over all brokers."""
    async with connected(cluster) as client:
        brokers = sorted(client.brokers())
        for number, broker in enumerate(brokers):
            item = {"gen": 0, "bname": broker, "logicOffset": 0, "startOffset": 0, "endOffset": -1}
            mapping = {"topic": topic, "scope": "__global__", "bname": broker, "epoch": 1_700_000_000_000}
            mapping |= {"totalQueues": 2 * len(brokers), "currIdMap": {}}
            mapping |= {"hostedQueues": {str(2 * number + i): [item | {"queueId": i}] for i in range(2)}}
            fields = {"topic": topic, "defaultTopic": "TBW102", "perm": "6", "topicFilterType": "SINGLE_TAG"}
            fields |= {"readQueueNums": "2", "writeQueueNums": "2", "order": "false", "force": "false"}
            await client.writer(broker).ask(UPDATE_STATIC_TOPIC, fields, body=(json.dumps(mapping).encode(),))


WIDE_NEW = ClusterSpec(name="wide", version="5.5.0", brokers=2)
WIDE = ClusterSpec(name="wide", version="5.3.3", brokers=2)
NEW = ClusterSpec(name="west", version="5.5.0")


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        (WIDE_NEW, {lite: "set enableLmq", priority: "message.type=PRIORITY", static: "static topic"}),
        (WIDE, {static: "static topic", compacted: "cleanup.policy=COMPACTION"}),
    ],
    ids=lambda each: each.version if isinstance(each, ClusterSpec) else "kinds",
)
async def test_kinds_that_cannot_be_copied(
    clusters: ClusterPool,
    tmp_path: Path,
    topic_name: Callable[[str], str],
    source: ClusterSpec,
    kinds: dict[Make, str],
) -> None:
    """Those that are created later do not disturb the others, nor workers that start; a first start is refused."""
    east, west = await clusters.pair(source, NEW)
    prefix = topic_name("t")
    await create_topic(east, f"{prefix}plain")
    flags = ("--topics", f"{prefix}.*")
    async with Worker(east, west, tmp_path, *flags) as worker:
        await until(lambda: worker.running == [f"{prefix}plain"], what="the plain one is copied")
        named = {f"{prefix}{make.__name__}": words for make, words in kinds.items()}
        worker.signal(signal.SIGSTOP)  # a topic that it sees at one broker alone may be such that it can be copied
        try:
            for make in kinds:
                await make(east, f"{prefix}{make.__name__}")
        finally:
            worker.signal(signal.SIGCONT)

        def problems() -> dict[str, str]:
            found: dict[str, str] = worker.ask("GET", "/connectors/route/status")[1]["problems"]
            return found if found.keys() == named.keys() else {}

        found = await until(problems, what="all are named")
        assert all(words in found[topic] for topic, words in named.items()), found
        readiness = worker.ask("GET", "/connectors/route/readiness")[1]
        for topic, words in named.items():
            assert any(topic in why and words in why for why in readiness["reasons"]), readiness["reasons"]
            (event,) = [e for e in worker.events if e["event"] == "topic cannot be copied" and e["topic"] == topic]
            assert words in event["reason"]
        assert worker.running == [f"{prefix}plain"]
        async with Worker(east, west, tmp_path / "second", "--worker-id", "second", *flags) as second:
            await until(lambda: "connector of the group has problems" in second.log, what="a second one joins")
            assert await worker.drain() == 0
            await until(lambda: second.running == [f"{prefix}plain"], what="it takes over")
            await worker.start()
        await until(lambda: worker.running == [f"{prefix}plain"], what="the first one starts again")
    there = [topic for topics in (await topics_of(west)).values() for topic in topics if topic.startswith(prefix)]
    assert there == [f"{prefix}plain"]
    _, examined = await doctor("--source", east.namesrv, "--target", west.namesrv, *flags)
    errors = told(examined, "error")
    assert all(words in errors["topics", topic] for topic, words in named.items()), errors
    worker = Worker(east, west, tmp_path / "again", *flags, group=f"{prefix}again")
    await worker.start(ready=False)
    assert await worker.wait() == 3
    assert all(f"topic {topic} cannot be copied" in worker.log for topic in named), worker.log


async def test_priorities_between_clusters_of_one_broker_each(scene: SceneOf) -> None:
    """Each message is in the queue of its priority, there as here, in order."""
    new = ClusterSpec(name="east", version="5.5.0")
    async with scene(source=new, target=NEW, queues=3, attributes=PRIORITY) as route, route.worker() as worker:
        async with connected(route.source) as client:
            for i in range(30):
                told = {"_SYS_MSG_PRIORITY_": str(i % 4), "KEYS": f"k{i}"}
                await send_alone(client, "east-a", route.topic, 0, b"%d" % i, told)
        await worker.caught_up(route.topic, 30)
        await route.assert_clean(30)
        stored = await raw_topic(route.target, route.topic)
        bodies = {queue: [int(message.content) for message in messages] for (_, queue), messages in stored.items()}
        assert bodies == {
            0: list(range(0, 30, 4)),
            1: list(range(1, 30, 4)),
            2: [i for i in range(30) if i % 4 >= 2],
        }
