"""A running worker keeps accounts in step, and tells nobody a secret."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest

from acl_sync.model import PUB, SUB
from replicator.client.queue_range import read_range
from replicator.settings.secret_file import write_secret
from tests.support.accounts import account, topic
from tests.support.acl_scene import MIDDLE, NEW, OLD, Scene, Side, a_scene, between
from tests.support.alerts import watching
from tests.support.clusters import ClusterPool
from tests.support.group import plain
from tests.support.older_store import OlderStore
from tests.support.worker import Worker, signing, until

pytestmark = pytest.mark.side_by_side("guarded")

#: Seconds within which a change has to be active at the target.
IN_TIME = 10.0

BLOCKED = 'sum(rocketmq_replicator_sync_blocked_actions{resource="acl"})'
APPLIED = 'sum(rocketmq_replicator_sync_actions_applied_total{resource="acl"})'


async def test_a_worker_syncs_accounts(clusters: ClusterPool, tmp_path: Path) -> None:
    """From 4.9 to 5.5 in time, at default settings: given, taken away, deleted; the canary is written nowhere."""
    async with a_scene(clusters, OLD, NEW) as scene:
        source, target = scene.source, scene.target
        await target.create(scene.topic)
        canary = "can+ary/se cret&?~5e1f"
        sender = account(scene.name, topic(scene.topic, PUB), secret=canary)
        async with syncing(scene, tmp_path, "--acl-accounts", scene.name, "--log-level", "debug") as worker:
            await until(lambda: worker.ask("GET", "/connectors/route/status")[0] == 200)
            await source.put(sender)
            await until(lambda: target.lets_send(sender, scene.topic), seconds=IN_TIME, what="it may send")
            sent = asyncio.get_running_loop().time()
            await source.put(dataclasses.replace(sender, rules=(topic(scene.topic, SUB),)))

            async def refused() -> bool:
                return not await target.lets_send(sender, scene.topic)

            await until(refused, seconds=IN_TIME, what="it may not send any more")
            assert asyncio.get_running_loop().time() - sent < IN_TIME
            await source.drop(scene.name)
            await until(lambda: "the source no longer has it" in str(_page(worker, "plan")))
            written = [
                json.dumps(_page(worker, what)) for what in ("plan", "sync", "readiness", "config", "status")
            ]
            assert scene.name in written[1]
            assert await worker.drain() == 0
        assert '"kind": "acl"' in (worker.store / "audit.jsonl").read_text()
        written += [worker.log, *(path.read_text() for path in worker.store.iterdir() if path.is_file())]
        told = await _said(source)
        assert any(scene.name in text for text in told)
        forms = {canary, quote(canary, safe=""), base64.b64encode(canary.encode()).decode()[:-4]}
        assert not [form for form in forms for text in [*written, *told] if form in text]


async def test_accounts_that_drift_are_put_right_and_counted(clusters: ClusterPool, tmp_path: Path) -> None:
    """Ours, changed manually at the target; what was there before us stays, and is counted too. Nobody is woken."""
    async with a_scene(clusters, OLD, NEW) as scene:
        source, target = scene.source, scene.target
        await target.create(scene.topic)
        ours = account(f"{scene.name}-ours", topic(scene.topic, PUB), secret="secret of ours")
        theirs = account(f"{scene.name}-theirs", topic(scene.topic, PUB), secret="secret of theirs")
        await target.put(dataclasses.replace(theirs, rules=(topic(scene.topic, SUB),)))
        for each in (ours, theirs):
            await source.put(each)
        flags = ("--acl-accounts", f"{scene.name}.*", "--sync-acl-interval", "0.5")
        async with (
            syncing(scene, tmp_path / "worker", *flags) as worker,
            watching(tmp_path / "prometheus", [worker]) as prometheus,
        ):
            await until(lambda: prometheus.now(f"{BLOCKED} == 1 and {APPLIED} == 1"), what="a look at all")
            await target.put(dataclasses.replace(ours, rules=(topic(scene.topic, SUB),)))
            await until(lambda: target.lets_send(ours, scene.topic), seconds=IN_TIME, what="it may send again")
            await until(lambda: prometheus.now(f"{APPLIED} == 2"), what="it is counted")
            assert not await target.lets_send(theirs, scene.topic)
            assert not prometheus.firing()


async def test_a_deleted_account_does_not_come_back_with_an_older_store(
    clusters: ClusterPool, tmp_path: Path
) -> None:
    """The target broker's disk is restored: it would let in again whom the source has shut out."""
    source = await clusters.get(MIDDLE)
    async with clusters.fresh(NEW) as target, between(source, target) as here:
        here.syncer = here.sync(deletes=True)
        who = account(here.name, topic(here.topic, PUB), secret="secret of who is deleted")
        for side in (here.source, here.target):
            await side.create(here.topic)
        await here.source.put(who)
        await here.settles(partial(here.target.lets_send, who, here.topic), True)
        older = OlderStore(target, tmp_path / "older")
        await older.save()
        await here.source.drop(who.name)
        await here.settles(partial(here.target.lets_send, who, here.topic), False)
        await older.restore()
        assert who.name in (await here.target.states())[target.brokers[0].name].accounts
        await here.settles(partial(here.target.lets_send, who, here.topic), False)
        assert who.name not in (await here.target.states())[target.brokers[0].name].accounts


@asynccontextmanager
async def syncing(scene: Scene, directory: Path, *flags: str) -> AsyncIterator[Worker]:
    """A worker that may do everything, and syncs nothing but accounts."""
    source, target = scene.source, scene.target
    environment = {
        **signing("SOURCE", source.admin.access_key, source.admin.secret_key),
        **signing("TARGET", target.admin.access_key, target.admin.secret_key),
    }
    signed = ("--worker-group-secret-file", str(_secret(directory)))
    given = ("--topics", "none-of-them", "--sync", "acl", *signed, *flags)
    async with Worker(source.cluster, target.cluster, directory, *given, environment=environment) as worker:
        yield worker


def _secret(directory: Path) -> Path:
    """The same for all workers that have one directory."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "secret"
    if not file.exists():
        write_secret(file)
    return file


async def test_nothing_to_sync_is_told_at_the_start(clusters: ClusterPool, tmp_path: Path) -> None:
    """Before anything is written: the source checks no accounts."""
    plain = await clusters.get(dataclasses.replace(OLD, acl="none"))
    guarded = await clusters.get(NEW)
    keys = signing("TARGET", guarded.access_key, guarded.secret_key)
    worker = Worker(plain, guarded, tmp_path, "--topics", "none", "--sync", "acl", "--standalone", environment=keys)
    await worker.start(ready=False)
    assert await worker.wait() == 3
    assert "the source checks no accounts" in worker.log
    assert "Traceback" not in worker.log


def _page(worker: Worker, what: str) -> object:
    status, found = worker.ask("GET", f"/connectors/route/{what}")
    assert status == 200, found
    return found


async def _said(side: Side) -> list[str]:
    """All that is in the group's system topic of shared state."""
    return [
        plain(message.body[4:])
        for broker in (await side.client.refresh()).brokers
        async for message in read_range(side.client.master(broker), "replicator_sys_control", 0, 0)
    ]
