"""The switch to the target and back, the source alive or dead: nothing is skipped, and what is told is true."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.javatool import JavaToolError, Order, java_consume, java_produce
from tests.support.offsets import commit, make_group, offsets_of
from tests.support.printed import check_printed
from tests.support.readiness import asked, exact, health, ready
from tests.support.traffic import create_topic, has_perm, perms, produce, raw_topic
from tests.support.worker import SYNC_QUICKLY, Worker, until

pytestmark = pytest.mark.timeout(300)

EAST, WEST = ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.3.3")


async def command(worker: Worker, *arguments: str) -> tuple[int, str]:
    """Exit code and output of a command that asks the worker."""

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "replicator", *arguments],
            env={**os.environ, "REPLICATOR_URL": f"http://127.0.0.1:{worker.port}", "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    ended = await asyncio.to_thread(run)
    check_printed(arguments, ended.stdout)
    return ended.returncode, ended.stdout + ended.stderr


async def keys_before(cluster: Cluster, group: str, topic: str) -> tuple[set[str], set[str]]:
    """The messages that `group` has behind it on a cluster, and those before it."""
    at = await offsets_of(cluster, group, topic)
    behind: set[str] = set()
    before: set[str] = set()
    for lane, messages in (await raw_topic(cluster, topic)).items():
        for message in messages:
            name = message.properties.split(b"UNIQ_KEY\x01")[1].split(b"\x02")[0].decode()
            (behind if message.queue_offset < at.get(lane, 0) else before).add(name)
    return behind, before


async def test_there_and_back_again(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """A protected target is opened by the switch; the way back copies nothing twice, and offsets stay exact."""
    topic, group = topic_name("t"), topic_name("g")
    source, target = await clusters.pair(EAST, WEST)
    await create_topic(source, topic, queues=2)
    await produce(source, topic, 100)
    await make_group(source, group)
    await commit(source, group, topic, {("east-a", 0): 20, ("east-a", 1): 50})
    flags = ("--topics", topic, "--sync-groups", group, *SYNC_QUICKLY)
    async with Worker(source, target, tmp_path / "there", *flags, "--protect-target") as worker:
        await until(lambda: has_perm(target, topic, 4), what="the target is protected")
        await ready(worker)
        code, printed = await command(worker, "readiness")
        assert (code, printed.splitlines()[0]) == (0, "ready to switch")
        await _dry_run(worker, target, topic)
        await produce(source, topic, 60, start=100)
        code, printed = await command(worker, "failover", "--output", "json")
        report = json.loads(printed)
        assert code == 0, report
        assert report["drained"]
        assert report["stopped"]
        assert report["topics_opened"] == [topic]
        assert await perms(target, topic) == {6}
        await exact(source, target, group, topic)
        states = (await asyncio.to_thread(worker.ask, "GET", "/connectors/route/status"))[1]
        assert states["connector"]["state"] == "STOPPED"
        await commit(target, group, topic, {("west-a", 0): 60})  # consumers read on there
        code, printed = await command(worker, "readiness")
        assert (code, printed.splitlines()[0]) == (0, "failed over, and everything is at the target")
        await produce(source, topic, 10, start=160)  # by a producer that nobody has told
        await asyncio.sleep(1.5)
        assert await perms(target, topic) == {6}
    assert sum(map(len, (await raw_topic(target, topic)).values())) == 160

    await produce(target, topic, 40, start=1000)
    await commit(target, group, topic, {("west-a", 0): 60, ("west-a", 1): 95})
    async with Worker(target, source, tmp_path / "back", *flags, group="back") as worker:
        await until(lambda: _copies(source, topic, 210), what="what was born at the target is at the source")
        await until(lambda: _told_of(worker, group))
        report = await asked(worker, "POST", "failover", {"drain_timeout": 20})
        assert report["drained"], report
        assert [standing["missed"] for standing in report["groups"]] == [0]
    assert sum(map(len, (await raw_topic(source, topic)).values())) == 210
    read, _ = await keys_before(target, group, topic)
    passed, unread = await keys_before(source, group, topic)
    assert passed <= read
    stray = {f"U{number:030d}" for number in range(160, 170)}  # they stand before what was born at the target
    assert unread >= stray
    # Queue 0 has read none of what was born at the target: exact. Queue 1 has, and waits before the strays.
    assert (await offsets_of(source, group, topic))["east-a", 0] == 60
    assert (await offsets_of(source, group, topic))["east-a", 1] == 80


async def _dry_run(worker: Worker, target: Cluster, topic: str) -> None:
    """It says what a failover would do, and changes nothing."""
    code, printed = await command(worker, "failover", "--dry-run", "--output", "json")
    report = json.loads(printed)
    assert (code, report["dry_run"], report["stopped"], report["drained"]) == (0, True, False, True)
    assert report["topics_opened"] == [topic]
    assert "dry run: nothing was changed" in (await command(worker, "failover", "--dry-run"))[1]
    assert await perms(target, topic) == {4}
    assert worker.running == [topic]


async def _copies(cluster: Cluster, topic: str, count: int) -> bool:
    return sum(map(len, (await raw_topic(cluster, topic)).values())) == count


async def _told_of(worker: Worker, group: str) -> dict[str, Any] | None:
    groups = (await asked(worker, "GET", "readiness"))["groups"]
    return next((told for told in groups if told["group"] == group), None)


async def test_the_source_is_dead(clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]) -> None:
    """What can be done is done, what is lost is told; when the source is back nothing goes on by itself."""
    topic, group = topic_name("t"), topic_name("g")
    target = await clusters.get(WEST)
    async with clusters.lent(EAST) as source:
        await create_topic(source, topic, queues=2)
        await produce(source, topic, 200)
        await make_group(source, group)
        await commit(source, group, topic, {("east-a", 0): 20, ("east-a", 1): 50})
        synced = ("--topics", topic, "--sync-groups", group, *SYNC_QUICKLY)
        flags = (*synced, "--protect-target", "--session-timeout", "3")
        async with Worker(source, target, tmp_path, *flags) as worker:
            await until(lambda: has_perm(target, topic, 4))
            await ready(worker)
            order = Order(topic=topic, body=b"born at the target")
            with pytest.raises(JavaToolError, match="No route info"):
                await java_produce(target.namesrv, [order])
            await source.brokers[0].kill()
            status, refused = await asyncio.to_thread(
                worker.ask, "POST", "/connectors/route/failover", {"drain_timeout": 0}
            )
            if status == 409:  # its lease was over already
                assert "--source-dead" in refused["hint"]
            code, printed = await command(worker, "failover", "--source-dead", "--output", "json")
            report = json.loads(printed)
            assert code == 5
            assert not report["drained"]
            assert "is not known" in report["missing"][0]["problem"]
            assert report["synced"]["groups"] == [{"group": group, "queues": 2}]
            assert report["synced"]["at"] > 0
            code, printed = await command(worker, "readiness")
            assert (code, printed.splitlines()[0]) == (5, "failed over, and not everything is at the target")
            assert "delete it here" not in printed
            assert await perms(target, topic) == {6}
            assert await offsets_of(target, group, topic) == {("west-a", 0): 20, ("west-a", 1): 50}
            rest = await java_consume(target.namesrv, topic, group=group, count=130, idle=40)
            assert {message.properties["KEYS"] for message in rest} == {
                f"k{number}" for number in range(200) if number // 2 >= (50 if number % 2 else 20)
            }
            assert [sent.status for sent in await java_produce(target.namesrv, [order])] == ["SEND_OK"]
            await source.brokers[0].start()
            await until(lambda: health(worker)[1].keys() == {"route"}, what="its group is there again")
            await asyncio.sleep(2)
            states = (await asyncio.to_thread(worker.ask, "GET", "/connectors/route/status"))[1]
            assert states["connector"]["state"] == "STOPPED"
            assert await perms(target, topic) == {6}
