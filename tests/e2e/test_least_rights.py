"""The least rights of the replicator's accounts: with them all crosses, and none of them is for nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shlex
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from acl_sync.model import SUB, Account, Kind, Rule
from replicator.client.pull import GROUP
from replicator.routing.parked import parked_topics
from replicator.sandbox import Cluster
from tests.support.clusters import ClusterPool
from tests.support.least_rights import (
    READS_POP,
    READS_RETRIES,
    WRITES_RETRIES,
    Guarded,
    guarded,
    right,
    with_groups,
)
from tests.support.mqadmin import mqadmin
from tests.support.offsets import are_at, commit, make_group
from tests.support.pop import pop
from tests.support.readiness import asked, ready
from tests.support.traffic import connected, create_topic, produce, raw_topic, send_alone
from tests.support.waiting import send_waiting
from tests.support.worker import SYNC_QUICKLY, Worker, command, group_of_test, until

pytestmark = pytest.mark.side_by_side("guarded")


async def test_least_rights(clusters: ClusterPool, tmp_path: Path) -> None:
    """Messages, those that wait, settings of topics, groups and offsets cross, and nothing is refused."""
    async with guarded(clusters) as here:
        await send_waiting(here.source.cluster, here.topic, ["of a level"], level=18)
        due = round(time.time() * 1000) + 3_600_000
        await send_waiting(here.source.cluster, here.topic, ["of the timer"], deliver_ms=due)
        await make_group(here.source.cluster, here.group)
        await commit(here.source.cluster, here.group, here.topic, {("east-a", 0): 10})
        async with here.worker(tmp_path, "--sync", "topics,groups,offsets,pending") as worker:
            await worker.caught_up(here.topic, 100)
            for name in parked_topics(group_of_test(), "route").values():
                await until(partial(_has_messages, here.target.cluster, name), what=f"a message is in {name}")
            await until(
                partial(are_at, here.target.cluster, here.group, here.topic, {("west-a", 0): 10}),
                what="the group's offset follows",
            )
            assert "refused" not in worker.log


async def test_least_rights_of_retries(clusters: ClusterPool, tmp_path: Path) -> None:
    """Retry topics are copied; a failover puts into one what a POP group holds, and a second one finds it."""
    async with guarded(clusters) as here:
        source, target = here.source.cluster, here.target.cluster
        retry = f"%RETRY%{here.group}"
        await here.source.put(with_groups(here.reader, READS_RETRIES, *READS_POP))
        await here.target.put(with_groups(here.writer, WRITES_RETRIES))
        await make_group(source, here.group)
        await create_topic(source, retry, queues=1)
        async with connected(source) as client:
            await send_alone(client, "east-a", retry, 0, b"again", {})
        held = {message.content for message in await pop(source, here.topic, here.group, count=8, invisible_s=300)}
        assert len(held) == 8
        async with here.worker(tmp_path, "--retry-topics") as worker:
            await worker.caught_up(here.topic, 100)
            await worker.caught_up(retry, 1)
            await until(partial(_knows_of, worker, here.topic, len(held)), what="what is held is known")
            await ready(worker)
            for _ in range(2):
                report = await asked(worker, "POST", "failover", {"drain_timeout": 20})
                assert report["problems"] == []
                counts = [each["to_retry_topic"] for each in report["groups"] if each["topic"] == here.topic]
                assert sum(counts) == len(held)
            assert "refused" not in worker.log
        found = (await raw_topic(target, f"{retry}_{here.topic}")).values()
        assert Counter(message.content for messages in found for message in messages) == Counter(held)


async def test_what_a_failover_may_not_is_said_before(clusters: ClusterPool, tmp_path: Path) -> None:
    """And what to type; once it is typed all is ready, and the failover does it."""
    async with guarded(clusters) as here:
        source, target = here.source.cluster, here.target.cluster
        await here.source.put(with_groups(here.reader, right(Kind.GROUP, "", SUB), *READS_POP))
        await make_group(source, here.group)
        held = {message.content for message in await pop(source, here.topic, here.group, count=8, invisible_s=300)}
        retry = f"%RETRY%{here.group}_{here.topic}"
        examined = await until(partial(_examined, here), what="the doctor sees that groups consume by POP")
        async with here.worker(tmp_path) as worker:
            await worker.caught_up(here.topic, 100)
            await until(partial(_knows_of, worker, here.topic, len(held)), what="what is held is known")

            async def said() -> str:
                reasons = (await asked(worker, "GET", "readiness"))["reasons"]
                return reasons[0] if len(reasons) == 1 else ""

            why = await until(said, what="one reason is left")
            assert why.startswith(f"group {here.group} at west-a could not be given what its POP consumers hold: ")
            assert f"the target's account {here.writer.name} may not create {retry} (" in why
            tried = await asked(worker, "POST", "failover", {"drain_timeout": 20, "dry_run": True})
            assert tried["problems"] == [why]
            assert examined["message"].partition(": ")[2] == why.partition(": ")[2].partition("; ")[0]
            assert examined["advice"] == why.partition("; ")[2]
            typed = why.partition("type `mqadmin ")[2].removesuffix("`")
            await mqadmin(target, *shlex.split(typed))
            await ready(worker)
            assert (await _examined(here))["level"] == "ok"
            report = await asked(worker, "POST", "failover", {"drain_timeout": 20})
            assert report["problems"] == []
        found = (await raw_topic(target, retry)).values()
        assert Counter(message.content for messages in found for message in messages) == Counter(held)


async def test_offsets_that_are_refused_are_said(clusters: ClusterPool, tmp_path: Path) -> None:
    """And what to type; once it is typed all is ready."""
    async with guarded(clusters) as here:
        reads = Rule(kind=Kind.GROUP, name=GROUP, actions=frozenset({SUB}))
        await here.target.put(with_groups(here.writer, reads))
        await make_group(here.source.cluster, here.group)
        await commit(here.source.cluster, here.group, here.topic, {("east-a", 0): 10})
        async with here.worker(tmp_path) as worker:
            await worker.caught_up(here.topic, 100)

            async def said() -> str:
                reasons = (await asked(worker, "GET", "readiness"))["reasons"]
                return next((each for each in reasons if each.startswith("offsets cannot be synced: ")), "")

            why = await until(said, what="what is refused is said")
            assert f"Group:{here.group}" in why
            await mqadmin(here.target.cluster, *shlex.split(why.partition("type `mqadmin ")[2].removesuffix("`")))
            await ready(worker)


async def _examined(here: Guarded) -> dict[str, Any]:
    """What `doctor` says of retry topics; nothing where nobody has consumed by POP yet."""
    clusters = ("--source", here.source.namesrv, "--target", here.target.namesrv)
    flags = (*clusters, "--topics", here.topic, "--sync-groups", here.group)
    ended = await asyncio.to_thread(command, here.environment, "doctor", "-o", "json", *flags)
    findings: list[dict[str, Any]] = json.loads(ended.stdout)["findings"]
    return next((each for each in findings if "POP consumers hold" in each["message"]), {})


async def _knows_of(worker: Worker, topic: str, held: int) -> bool:
    groups = (await asked(worker, "GET", "readiness"))["groups"]
    return held == sum(int(each["in_flight"]) for each in groups if each["topic"] == topic)


async def _has_messages(cluster: Cluster, name: str) -> bool:
    return any((await raw_topic(cluster, name)).values())


@pytest.mark.timeout(900)
async def test_each_right_is_needed(clusters: ClusterPool, tmp_path: Path) -> None:
    """Without one of them a worker ends, or says which request was refused."""
    async with guarded(clusters) as here:
        await make_group(here.source.cluster, here.group)
        unneeded = []
        for number, (who, rule, action) in enumerate(_rights(here)):
            side = here.source if who is here.reader else here.target
            less = dataclasses.replace(rule, actions=rule.actions - {action})
            rules = (less if each is rule else each for each in who.rules)
            await side.put(dataclasses.replace(who, rules=tuple(each for each in rules if each.actions)))
            if not await _is_noticed(here, number, tmp_path / str(number)):
                unneeded.append(f"{who.name}: {rule.kind} {rule.name} {action}")
            await side.put(who)
        assert unneeded == []


def _rights(here: Guarded) -> Iterator[tuple[Account, Rule, str]]:
    for who in (here.reader, here.writer):
        for rule in who.rules:
            for action in sorted(rule.actions):
                yield who, rule, action


async def _is_noticed(here: Guarded, number: int, directory: Path) -> bool:
    """Whether a worker that comes new to a topic, with a group of its own, misses something."""
    source, topic, group = here.source.cluster, f"{here.topic}-{number}", f"{group_of_test()}-{number}"
    await create_topic(source, topic, queues=1)
    await produce(source, topic, 10)
    await send_waiting(source, topic, ["of a level"], level=18, queues=1)
    due = round(time.time() * 1000) + 3_600_000
    await send_waiting(source, topic, ["of the timer"], deliver_ms=due, queues=1)
    await commit(source, here.group, topic, {("east-a", 0): 5})
    own = [f"--{role}-topic=replicator_sys_{role}_{group}" for role in ("source-online", "sink-online", "control")]
    worker = Worker(
        *(source, here.target.cluster, directory, "--topics", topic, "--sync-groups", here.group),
        *(*SYNC_QUICKLY, "--sync", "topics,groups,offsets,pending", *own),
        environment=here.environment,
        group=group,
    )
    await worker.start(ready=False)

    async def ended() -> bool:
        return worker.exit_code is not None or "refused" in worker.log or await whole()

    async def whole() -> bool:
        parked = parked_topics(group, "route").values()
        return await are_at(here.target.cluster, here.group, topic, {("west-a", 0): 5}) and all(
            [await _has_messages(here.target.cluster, name) for name in parked]
        )

    try:
        await until(ended, seconds=60, what="all has crossed, or the worker says what is missing")
        return worker.exit_code is not None or "refused" in worker.log
    finally:
        await worker.kill()
