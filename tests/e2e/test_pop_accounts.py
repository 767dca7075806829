"""POP groups are failed over between clusters with accounts, of which one has ACL 1.0 (5.1.4).

The clients are the tests' own: there is no Proxy of 5.1.4 in the sandbox, and none with accounts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.sandbox import Cluster, ClusterSpec
from tests.support.acl_scene import MIDDLE, NEW
from tests.support.clusters import ClusterPool
from tests.support.offsets import make_group
from tests.support.pop import pop
from tests.support.readiness import asked, ready
from tests.support.traffic import create_topic, produce, raw_topic
from tests.support.worker import SYNC_QUICKLY, Worker, signing, until

pytestmark = pytest.mark.side_by_side("guarded")

OLD_EAST = ClusterSpec(name="east", version="5.1.4", acl="1.0")
OLD_WEST = ClusterSpec(name="west", version="5.1.4", acl="1.0")
ALL, HELD = 40, 8


async def _scene(clusters: ClusterPool, topic: str, group: str, *specs: ClusterSpec) -> tuple[Cluster, Cluster]:
    """Of the first queue the group was delivered some messages, and holds them."""
    source, target = await clusters.pair(*specs)
    await create_topic(source, topic, queues=1)
    await make_group(source, group)
    await produce(source, topic, ALL)
    assert len(await pop(source, topic, group, count=HELD, invisible_s=300)) == HELD
    return source, target


def _worker(source: Cluster, target: Cluster, directory: Path, topic: str, group: str) -> Worker:
    environment = signing("SOURCE", source.access_key, source.secret_key)
    environment |= signing("TARGET", target.access_key, target.secret_key)
    flags = ("--topics", topic, "--sync-groups", group, *SYNC_QUICKLY)
    return Worker(source, target, directory, *flags, environment=environment)


async def test_a_source_that_does_not_show_what_is_held(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """`readiness` and the failover say so; the group goes on behind what it was delivered, at the exact place."""
    topic, group = topic_name("t")[-20:], topic_name("g")[-20:]
    source, target = await _scene(clusters, topic, group, OLD_EAST, NEW)
    async with _worker(source, target, tmp_path, topic, group) as worker:
        await worker.caught_up(topic, ALL)
        told = await ready(worker)
        assert any("nobody may read its timer" in each for each in told["pending"]["problems"]), told["pending"]
        report = await asked(worker, "POST", "failover", {"drain_timeout": 20})
        assert report["drained"]
        assert any("nobody may read its timer" in each for each in report["pending"]["problems"]), report["pending"]
        assert "refused" not in worker.log
    rest = [message.content for message in await pop(target, topic, group, count=32, invisible_s=300)]
    sent = [message.content for message in (await raw_topic(source, topic))["east-a", 0]]
    assert rest == sent[HELD:]


async def test_a_target_that_is_given_what_is_held(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """It is delivered at the target as further attempts, and nothing else that was delivered at the source."""
    topic, group = topic_name("t")[-20:], topic_name("g")[-20:]
    source, target = await _scene(clusters, topic, group, MIDDLE, OLD_WEST)

    async def is_known() -> bool:
        groups = (await asked(worker, "GET", "readiness"))["groups"]
        return [each["to_retry_topic"] for each in groups if each["topic"] == topic] == [HELD]

    async with _worker(source, target, tmp_path, topic, group) as worker:
        await worker.caught_up(topic, ALL)
        await until(is_known, what="what is held is known")
        await ready(worker)
        for _ in range(2):
            report = await asked(worker, "POST", "failover", {"drain_timeout": 20})
            assert report["problems"] == []
        assert "refused" not in worker.log
    got: Counter[bytes] = Counter()

    async def all_came() -> bool:
        got.update(message.content for message in await pop(target, topic, group, count=32, invisible_s=300))
        return got.total() >= ALL

    await until(all_came, what="all are delivered")
    assert got == Counter(message.content for message in (await raw_topic(source, topic))["east-a", 0])
