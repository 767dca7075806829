"""What the source deletes: told, or deleted at the target, too, where that takes nothing from others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.client.groups import read_groups
from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.offsets import drop_group, make_group
from tests.support.readiness import asked, changed, ready
from tests.support.traffic import connected, create_topic, produce, remove_topic, topics_of
from tests.support.worker import SYNC_QUICKLY, Worker, until

pytestmark = pytest.mark.timeout(300)

EAST, WEST = ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.3.3")


async def test_deletions_are_told_or_done(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Told by default; done when opted in, but for a topic that others use; of groups, once nobody consumes."""
    topic, group = topic_name("t"), topic_name("g")
    source, target = await clusters.pair(EAST, WEST)
    for name in (topic, f"{topic}-used", f"{topic}-kept"):
        await create_topic(source, name)
    await make_group(source, group)
    flags = ("--topics", f"{topic}.*", "--sync-groups", f"{group}.*", *SYNC_QUICKLY)
    async with Worker(source, target, tmp_path, *flags) as worker:
        await ready(worker)
        known = f"route/topics/west-a/{topic}"
        await until(lambda: known in (worker.store / "position.json").read_text(), what="it knows what it made")
        await until(lambda: f"{known}-used" in (worker.store / "position.json").read_text(), what="and the other")
        await produce(target, f"{topic}-used", 1)
        await remove_topic(source, f"{topic}-used")
        await remove_topic(source, topic)
        await until(lambda: _blocked(worker, "the source has deleted it"))
        assert topic in (await topics_of(target))["west-a"]
        await drop_group(source, group)
        await until(lambda: _blocked_for(worker, group), what="its group is told, too")
        await changed(worker, sync_deletes=True)
        await until(lambda: _gone(target, topic), what="deleted at the target")
        await until(lambda: _blocked(worker, "once it has had no consumers for a minute"))
        await until(lambda: _blocked(worker, "it has messages here that were not copied from there"))
        await remove_topic(source, f"{topic}-kept")  # all are gone now, as after the loss of a disk
        await until(lambda: _blocked(worker, "gone there at once"))
        assert {f"{topic}-used", f"{topic}-kept"} <= (await topics_of(target))["west-a"].keys()


async def test_groups_are_deleted_after_a_quiet_minute(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    topic, group = topic_name("t"), topic_name("g")
    source, target = await clusters.pair(EAST, WEST)
    await create_topic(source, topic)
    await make_group(source, group)
    flags = ("--topics", topic, "--sync-groups", group, "--sync-deletes", *SYNC_QUICKLY)
    async with Worker(source, target, tmp_path, *flags) as worker:
        await ready(worker)
        known = f"route/groups/west-a/{group}"
        await until(lambda: known in (worker.store / "position.json").read_text(), what="it knows what it made")
        await drop_group(source, group)
        await until(lambda: _has_no(target, group), what="deleted at the target", seconds=150)


async def _blocked(worker: Worker, why: str) -> bool:
    return any(why in action["blocked"] for action in await asked(worker, "GET", "plan"))


async def _blocked_for(worker: Worker, name: str) -> bool:
    plan = await asked(worker, "GET", "plan")
    return any("deleted" in action["blocked"] for action in plan if action["name"] == name)


async def _has_no(cluster: Cluster, group: str) -> bool:
    async with connected(cluster) as client:
        (broker,) = client.brokers()
        return group not in (await read_groups(client.master(broker))).groups


async def _gone(cluster: Cluster, topic: str) -> bool:
    return topic not in (await topics_of(cluster))["west-a"]
