"""The whole of it: consumers of the official client go on at the target, with the same password."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from acl_sync.model import GET, SUB, Account, Kind, Rule
from replicator.sandbox import Cluster, ClusterSpec
from replicator.settings.secret_file import write_secret
from tests.support.accounts import account, topic
from tests.support.acl_scene import Side
from tests.support.clusters import ClusterPool
from tests.support.javatool import Credentials, java_consume
from tests.support.readiness import asked, ready
from tests.support.stores import ONE_DATABASE
from tests.support.traffic import create_topic, produce
from tests.support.worker import SYNC_QUICKLY, Worker, signing

pytestmark = pytest.mark.timeout(300)

#: Versions of source and target, and how their brokers keep what is set and consumed.
CASES = {
    "4.9.7-5.5.0": ("4.9.7", "5.5.0", {}),
    "5.5.0-5.5.0": ("5.5.0", "5.5.0", {}),
    "5.3.3-5.3.3": ("5.3.3", "5.3.3", {}),
    "5.1.4-5.5.0": ("5.1.4", "5.5.0", {}),
    "one database": ("5.5.0", "5.5.0", ONE_DATABASE),
}
#: Versions with ACL 1.0.
OLDER = ("4.9.7", "5.1.4")
MESSAGES = 400


def guarded(name: str, version: str, kept: Mapping[str, str]) -> ClusterSpec:
    """Two brokers that check who asks."""
    acl = "1.0" if version in OLDER else "2.0"
    return ClusterSpec(name=name, version=version, brokers=2, acl=acl, properties=kept)


@pytest.mark.parametrize(("source_version", "target_version", "kept"), CASES.values(), ids=CASES)
async def test_consumers_go_on_at_the_target(
    clusters: ClusterPool,
    tmp_path: Path,
    topic_name: Callable[[str], str],
    source_version: str,
    target_version: str,
    kept: Mapping[str, str],
) -> None:
    """Groups stop anywhere at the source and read the rest at the target: nothing skipped, nothing again."""
    name, groups = topic_name("t"), [topic_name(f"g{i}") for i in range(2)]
    wide, broad = guarded("wide", source_version, kept), guarded("broad", target_version, kept)
    source, target = await clusters.pair(wide, broad)
    await create_topic(source, name, queues=2)
    await produce(source, name, MESSAGES)
    side, there = Side(source), Side(target)
    rules = [Rule(kind=Kind.GROUP, name=group, actions=frozenset({SUB})) for group in groups]
    who = account(topic_name("reader")[-60:], topic(name, SUB), *rules, secret="the-same-password")
    if source_version not in OLDER:  # 2.0 asks for what 1.0 takes for granted
        who = _with_get(who)
    await side.put(who)
    password = Credentials(who.name, "the-same-password")

    async def consumed(cluster: Cluster, group: str, count: int) -> list[str]:
        read = await java_consume(cluster.namesrv, name, group=group, count=count, idle=40, credentials=password)
        return [message.properties["KEYS"] for message in read]

    counts = [random.randint(1, MESSAGES - 10) for _ in groups]
    first = await asyncio.gather(*(consumed(source, *each) for each in zip(groups, counts, strict=True)))
    assert [len(keys) for keys in first] == counts
    environment = signing("SOURCE", side.admin.access_key, side.admin.secret_key)
    environment |= signing("TARGET", there.admin.access_key, there.admin.secret_key)
    flags = ("--topics", name, "--sync-groups", ",".join(groups), "--acl-accounts", who.name, *SYNC_QUICKLY[2:])
    write_secret(tmp_path / "secret")
    signed = ("--worker-group-secret-file", str(tmp_path / "secret"))
    worker = Worker(
        source, target, tmp_path, "--sync", "topics,groups,offsets,acl", *flags, *signed, environment=environment
    )
    async with worker:
        told = await ready(worker)
        assert {group["group"] for group in told["groups"]} == set(groups)
        report = await asked(worker, "POST", "failover", {"drain_timeout": 20})
        assert report["drained"]
        assert report["problems"] == []
    rest = await asyncio.gather(
        *(consumed(target, group, MESSAGES - count) for group, count in zip(groups, counts, strict=True))
    )
    for keys, others in zip(first, rest, strict=True):
        assert sorted(keys + others) == sorted(f"k{i}" for i in range(MESSAGES))
    await side.drop(who.name)
    await there.drop(who.name)


def _with_get(who: Account) -> Account:
    return dataclasses.replace(
        who, rules=tuple(dataclasses.replace(rule, actions=rule.actions | {GET}) for rule in who.rules)
    )
