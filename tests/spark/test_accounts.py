"""Spark jobs between guarded clusters: what accounts need, what is said where they lack it, no secret told."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from acl_sync.model import PUB, SUB, Account, Kind
from replicator.client.pull import pull
from replicator.client.security import Credentials
from replicator.errors import BrokerRefused
from replicator.settings.secret_file import write_secret
from tests.spark.test_archive import export, restore, told
from tests.spark.test_surroundings import NEW, OLD
from tests.spark.waiting import settled
from tests.support.acl_scene import Side
from tests.support.clusters import ClusterPool
from tests.support.guarded import access, shown
from tests.support.least_rights import guarded
from tests.support.scene import SceneOf
from tests.support.traffic import create_topic, judge
from tests.support.worker import signing, until

pytestmark = pytest.mark.timeout(400)


def without(who: Account, action: str) -> Account:
    """One that may not do this to the topics that are copied."""
    rules = [
        dataclasses.replace(rule, actions=rule.actions - {action})
        if rule.kind is Kind.TOPIC and not rule.name.startswith("replicator_sys_")
        else rule
        for rule in who.rules
    ]
    return dataclasses.replace(who, rules=tuple(rules))


async def is_known(side: Side, who: Account, action: str, name: str, *, allowed: bool) -> bool:
    """Whether it is so by now that an account may, or may not, read or write a topic."""
    may = side.lets_send(who, name) if action == PUB else lets_read(side, who, name)
    return await may is allowed


async def lets_read(side: Side, who: Account, name: str) -> bool:
    """Whether every broker gives an account what is in a topic."""
    client = side.connect(Credentials(who.name, who.secret.reveal()))
    try:
        for broker in (await client.refresh()).brokers:
            await pull(client.reader(broker), name, 0, 0)
    except BrokerRefused:
        return False
    finally:
        await client.close()
    return True


async def test_accounts_that_lack_a_right(
    command: Any, clusters: ClusterPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is begun it is refused; of one that is under way each queue says in one line which right that
    is, and with it the next run does them.
    """
    async with guarded(clusters) as here:
        for side, who in (("SOURCE", here.reader), ("TARGET", here.writer)):
            for name, value in signing(side, who.name, who.secret.reveal()).items():
                monkeypatch.setenv(name, value)
        flags = ["--source", here.source.namesrv, "--target", here.target.namesrv, "--topics", here.topic]
        flags += ["--session-timeout", "3", "--stall-timeout", "2", "--output", "json", "--store-path"]
        begun = tmp_path / "begun"
        probe = f"{here.topic}-probe"  # the same rules hold for it
        for cluster in (here.source.cluster, here.target.cluster):
            await create_topic(cluster, probe, queues=1)
        await settled(here.source.cluster, here.topic, 100)
        slow = asyncio.create_task(command("backfill", *flags, begun, "--rate-messages", "10"))
        await until((begun / "backfill.json").exists, what="the manifest")
        for place, who, action in (
            (here.target, here.writer, PUB),
            (here.source, here.reader, SUB),
            (here.target, here.writer, SUB),
        ):
            await place.put(without(who, action))
            await until(partial(is_known, place, who, action, probe, allowed=False), what=f"{action} is taken")
            ended = await (slow if action == PUB else command("backfill", *flags, begun))
            assert ended.exit_code == 5, (ended.output, ended.exception)
            errors = [queue["error"] for queue in json.loads(ended.stdout)["queues"]]
            assert len(errors) == 2
            for error in errors:
                assert f"User:{who.name} has no permission to access Topic:{here.topic}" in error
                assert f"account needs {action.upper()} on" in error
                assert "\n" not in error
            refused = await command("backfill", *flags, tmp_path / "new")
            assert f"topic {here.topic}: the " in str(refused.exception)
            assert f"User:{who.name} has no permission to access Topic:{here.topic}" in str(refused.exception)
            await place.put(who)
            await until(partial(is_known, place, who, action, probe, allowed=True), what=f"{action} is back")
        told(await command("backfill", *flags, begun))
        verdict = await judge(here.source.cluster, here.target.cluster, here.topic)
        assert (verdict.clean, verdict.copies) == (True, 100), verdict.report()


async def test_import_and_a_route_by_spark(
    command: Any, scene: SceneOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ACL 1.0 to ACL 2.0; the archive, Spark's event log and the worker's own log hold no secret."""
    async with scene(source=OLD, target=NEW, queues=2) as here:
        await here.produce(1000)
        await settled(here.source, here.topic, 1000)
        environment = access("SOURCE", here.source) | access("TARGET", here.target)
        conf, events = tmp_path / "conf", tmp_path / "events"
        for directory in (conf, events):
            directory.mkdir()
        settings = {"enabled": "true", "dir": str(events), "compress": "false", "rolling.enabled": "false"}
        lines = [f"spark.eventLog.{name} {value}\n" for name, value in settings.items()]
        # Spark hides what has "secret" in it, as these secrets have; others it would show.
        (conf / "spark-defaults.conf").write_text("".join([*lines, "spark.redaction.regex (?!)\n"]))
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            assert told(await export(command, here, tmp_path / "archive"))["messages"] == 1000
            again = ("--rename", "{topic}-again")
            done = told(await restore(command, here, tmp_path / "archive", tmp_path / "store", *again))
        assert done["copied"] == 1000
        verdict = await judge(here.source, here.target, here.topic, target_topic=f"{here.topic}-again")
        assert (verdict.clean, verdict.copies) == (True, 1000), verdict.report()

        write_secret(tmp_path / "secret")
        secret_file = ("--worker-group-secret-file", str(tmp_path / "secret"))
        flags = ("--engine", "spark", "--spark-master", "local[2,4]", *secret_file)
        async with here.worker(*flags, environment={**environment, "SPARK_CONF_DIR": str(conf)}) as worker:
            await worker.caught_up(here.topic, 1000, seconds=120)
            assert await worker.drain() == 0
        await here.assert_clean(1000)
        places = ("worker", "events", "archive", "store")
        files = [file for place in places for file in (tmp_path / place).rglob("*") if file.is_file()]
        written = {file: file.read_text(encoding="latin-1") for file in files}
        (log,) = (text for file, text in written.items() if file.parent == events)
        assert "SparkListenerApplicationEnd" in log
        for secret in (here.source.secret_key, here.target.secret_key, (tmp_path / "secret").read_text().strip()):
            assert not shown(secret, worker.log, *written.values())
