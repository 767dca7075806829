"""`replicator doctor` on real clusters: no warning of healthy ones, and each planted fault is named."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import re
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from acl_sync.model import PUB
from replicator.client.app_clients import read_consumer_clients, read_producers
from replicator.client.order import NAMESPACE
from replicator.protocol.codes import Request
from replicator.sandbox import Cluster, ClusterSpec
from replicator.settings.secret_file import write_secret
from tests.support.clusters import ClusterPool
from tests.support.group import EAST, WEST
from tests.support.least_rights import guarded
from tests.support.offsets import make_group
from tests.support.printed import check_printed
from tests.support.proxy import BrokerProxies
from tests.support.scene import Scene, SceneOf
from tests.support.traffic import configured, connected, create_topic, produce, tell_name_servers
from tests.support.worker import signing

pytestmark = pytest.mark.timeout(300)

OLD, NEW = ClusterSpec(name="east", version="4.9.7"), ClusterSpec(name="west", version="5.5.0")
#: Of all versions.
PAIRS = pytest.mark.parametrize(("source", "target"), [(EAST, WEST), (OLD, NEW)], ids=["5.3.3", "4.9.7 to 5.5.0"])

Told = dict[tuple[str, str], str]


async def doctor(*flags: str, environment: Mapping[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    """Its exit code, and what it found."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "replicator", "doctor", "-o", "json", *flags),
        stdout=asyncio.subprocess.PIPE,
        env=environment,
    )
    printed, _ = await process.communicate()
    check_printed(("doctor", "-o", "json"), printed)
    found = json.loads(printed)
    assert all(each["advice"] for each in found["findings"] if each["level"] in ("warning", "error")), found
    return process.returncode or 0, found


def told(found: dict[str, Any], level: str) -> Told:
    """The messages of one level, by check and subject, one a line."""
    messages: Told = {}
    for finding in found["findings"]:
        if finding["level"] == level:
            key = finding["check"], finding["subject"]
            messages[key] = messages.get(key, "") + finding["message"] + "\n"
    return messages


def of_route(route: Scene, found: dict[str, Any]) -> list[dict[str, str]]:
    """What is not ok, but for the worker groups that tests before this one have just left on the same clusters."""
    own = [each for each in found["findings"] if each["check"] != "other group" or each["subject"] == route.topic]
    return [finding for finding in own if finding["level"] != "ok"]


def flags_of(route: Scene, *more: str) -> tuple[str, ...]:
    """Those of the route alone: other tests use the clusters, too."""
    flags = ("--source", route.source.namesrv, "--target", route.target.namesrv)
    return (*flags, "--topics", route.topic, "--sync-groups", route.topic, *more)


@PAIRS
async def test_healthy_clusters(scene: SceneOf, tmp_path: Path, source: ClusterSpec, target: ClusterSpec) -> None:
    """Nothing but ok, before a start and while a worker runs. Nothing is written, here or there."""
    write_secret(tmp_path / "secret")
    secret = ("--worker-group-secret-file", str(tmp_path / "secret"))
    async with scene(source=source, target=target, queues=2) as route:
        await make_group(route.source, route.topic)
        await route.produce(10)
        flags = flags_of(route, *secret, "--store-path", str(tmp_path / "store"))
        code, found = await doctor(*flags)
        assert (code, of_route(route, found)) == (0, [])
        fine = told(found, "ok")
        assert fine["topics", "selection"] == "1 topic with 2 queues; 1 to create or enlarge\n"
        for side, name in (("source", "east-a"), ("target", "west-a")):
            for line in ("answers at 127.0.0.1:", "its VIP port", "its clock is within", "its disk is"):
                assert line in fine[f"{side} broker", name]
        assert f"RocketMQ {source.version}\n" in fine["source broker", "east-a"]
        assert f"RocketMQ {target.version}\n" in fine["target broker", "west-a"]
        assert not (tmp_path / "store").exists()
        worker_flags = ("--worker-group", route.topic, "--worker-id", "w7", "--sync-groups", route.topic)
        async with route.worker(*worker_flags, *secret) as worker:
            await worker.caught_up(route.topic, 10)
            code, found = await doctor(*flags, "--worker-group", route.topic)
            assert (code, of_route(route, found)) == (0, [])
            assert "workers that run: w7" in told(found, "ok")["group", route.topic]
            assert "all that are seen are copied" in told(found, "ok")["retention", "east-a"]
            code, found = await doctor(*flags, "--worker-group", "another")
            assert code == 5
            assert f"it copies {route.topic} between the same" in told(found, "error")["other group", route.topic]
        await route.produce(10, start=10)
        code, found = await doctor(*flags, "--worker-group", route.topic)
        assert re.fullmatch(
            rf"it keeps messages for 72 h, and the oldest one to copy is \d+ s old \({route.topic}/east-a/[01]\)\n",
            told(found, "ok")["retention", "east-a"],
        )


async def test_planted_faults(scene: SceneOf, tmp_path: Path) -> None:
    """Each is named with the way out, all in one run."""
    async with scene(source=EAST, target=WEST, mistreated=(EAST, WEST), queues=2) as route:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            dead = f"127.0.0.1:{taken.getsockname()[1]}"
        for name, more in (("used", {}), ("fifo", {"attributes": {"message.type": "FIFO"}})):
            await create_topic(route.source, f"{route.topic}-{name}", queues=2)
            await create_topic(route.target, f"{route.topic}-{name}", queues=1, **more)
        await produce(route.target, f"{route.topic}-used", 5)
        blocked = tmp_path / "file"
        blocked.write_text("in the way")
        flags = ["--source", f"{route.source.namesrv},{dead}", "--target", route.target.namesrv]
        flags += ["--topics", f"{route.topic}.*,mistyped", "--sync-groups", route.topic]
        async with (
            configured(route.source, enablePropertyFilter="false"),
            configured(route.target, maxMessageSize=1000, brokerPermission=4, autoCreateTopicEnable="true"),
        ):
            code, found = await doctor(*flags, "--sql", "a > 1", "--store-path", str(blocked / "store"))
        assert code == 5
        errors, warnings = told(found, "error"), told(found, "warning")
        assert "cannot be written" in errors["this machine", "store_path"]
        assert f"{dead} cannot be reached" in warnings["source name server", dead]
        assert f"the route uses {route.source.namesrv}" in warnings["source name server", dead]
        assert "it takes no messages" in errors["target broker", "west-a"]
        assert "does not filter by SQL92" in errors["source broker", "east-a"]
        assert "it takes messages of up to 1,000 bytes, and" in warnings["target broker", "west-a"]
        assert "autoCreateTopicEnable" in warnings["target broker", "west-a"]
        assert ("this machine", "worker_group_secret_file") in warnings
        assert ("clusters", "route") in told(found, "not checked")
        await _put_order(route.source, route.topic, "east-a:2")
        code, found = await doctor(*flags)
        warnings = told(found, "warning")
        assert (code, found["errors"]) == (0, 0), "warnings alone are no failure"
        assert "the sync of topics writes 'west-a:2'" in told(found, "ok")["order configuration", route.topic]
        await _put_order(route.target, route.topic, "west-a:2")
        assert "others have written to it" in warnings["target topic", f"{route.topic}-used"]
        assert "it has 1 queue at west-a, and the copy needs 2" in warnings["target topic", f"{route.topic}-used"]
        assert "message.type is FIFO, and NORMAL at" in warnings["target topic", f"{route.topic}-fifo"]
        assert ("topics", "mistyped") in warnings
        _, found = await doctor(*flags)
        assert "the target's name servers have it" in told(found, "ok")["order configuration", route.topic]


async def _put_order(cluster: Cluster, topic: str, value: str) -> None:
    """As `mqadmin updateOrderConf -m put`."""
    await tell_name_servers(cluster, Request.PUT_KV_CONFIG, {"namespace": NAMESPACE, "key": topic, "value": value})


async def test_a_name_server_that_is_none(scene: SceneOf) -> None:
    """What hangs on it is named as not checked."""
    async with scene(queues=1) as route:
        broker = f"127.0.0.1:{route.target.brokers[0].port}"
        with socket.create_server(("127.0.0.1", 0)) as taken:
            dead = f"127.0.0.1:{taken.getsockname()[1]}"
        code, found = await doctor("--source", dead, "--target", broker)
        assert code == 5
        errors, unknown = told(found, "error"), told(found, "not checked")
        assert "cannot be reached" in errors["source name server", dead]
        assert f"{broker} is a broker, not a name server" in errors["target cluster", broker]
        assert "its brokers" in unknown["source cluster", dead]
        assert "topics, rights, groups and workers" in unknown["clusters", "route"]


async def test_equal_names(scene: SceneOf) -> None:
    async with scene(source=OLD, target=EAST, queues=1) as route:
        code, found = await doctor(*flags_of(route))
        assert code == 0
        assert "both are called east" in told(found, "warning")["both clusters", "ids"]
        code, found = await doctor(*flags_of(route, "--source-id", "old", "--target-id", "new"))
        assert told(found, "ok")["both clusters", "ids"] == "old and new\n"


@pytest.mark.side_by_side("proxied")
async def test_addresses_that_cannot_be_reached(scene: SceneOf) -> None:
    """The broker is there, but not where its name server says it is; then all but its VIP port is."""
    async with scene(target=ClusterSpec(name="proxied", version="5.3.3", broker_ip="127.0.0.2"), queues=1) as route:
        address = "127.0.0.2", route.target.brokers[0].port
        code, found = await doctor(*flags_of(route))
        assert code == 5
        assert f"at 127.0.0.2:{address[1]}: " in told(found, "error")["target broker", "proxied-a"]
        assert "its version, clock, disk and settings" in told(found, "not checked")["target broker", "proxied-a"]
        (advice,) = {each["advice"] for each in found["findings"] if "brokerIP1" in each["advice"]}
        assert f"nc -vz 127.0.0.2 {address[1]}" in advice
        async with BrokerProxies(address) as proxies:
            proxies.vip.refuse()
            code, found = await doctor(*flags_of(route))
            assert code == 0, found
            assert (
                f"its VIP port 127.0.0.2:{address[1] - 2} does"
                in (told(found, "warning")["target broker", "proxied-a"])
            )
            await proxies.vip.close()
            code, found = await doctor(*flags_of(route))
            assert "its VIP port" in told(found, "warning")["target broker", "proxied-a"]


@PAIRS
async def test_applications(scene: SceneOf, source: ClusterSpec, target: ClusterSpec) -> None:
    """Producers and consumers that are connected, as brokers of each version tell of them."""
    async with scene(source=source, target=target, queues=1) as route:
        group = route.topic
        await create_topic(route.target, route.topic, queues=1)
        for cluster in (route.source, route.target):
            await make_group(cluster, group)
        await make_group(route.target, group, retryMaxTimes=3)
        async with (
            beating(route.source, group, route.topic, model="BROADCASTING"),
            beating(route.target, group, route.topic, model="CLUSTERING"),
        ):
            code, found = await doctor(*flags_of(route))
        assert code == 0
        warnings = told(found, "warning")
        told_of = f"are connected to the target, too: {group} (127.0.0.1:"
        assert told_of in warnings["producers", "target"]
        assert warnings["producers", "target"].endswith(f" {group}@CLUSTERING)\n")
        assert f"at the target already: {group} (127.0.0.1); so" in warnings["groups", "target"]
        assert (
            f"in broadcasting mode, and have their offsets in their clients: {group}"
            in warnings["groups", "offsets"]
        )
        assert warnings["groups", "settings"].endswith(f": {group}\n")


@asynccontextmanager
async def beating(cluster: Cluster, group: str, topic: str, *, model: str) -> AsyncIterator[None]:
    """An application that produces and consumes in `group`, as its heartbeat says."""
    subscription = {"topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": model,
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [subscription],
    }
    beat = {
        "clientID": f"{group}@{model}",
        "producerDataSet": [{"groupName": group}],
        "consumerDataSet": [consumer],
    }
    async with connected(cluster) as client:
        broker = client.master(cluster.brokers[0].name)
        await broker.ask(Request.HEART_BEAT, {}, body=(json.dumps(beat).encode(),))
        (told,) = (await read_producers(broker))[group]
        assert re.fullmatch(rf"127\.0\.0\.1:\d+ {re.escape(group)}@{model}", told)
        consumers = await read_consumer_clients(broker, group)
        assert consumers is not None
        assert (consumers.hosts, consumers.model) == (frozenset({"127.0.0.1"}), model)
        assert topic in consumers.topics
        assert await read_consumer_clients(broker, f"{group}-none") is None
        yield


def _with(environment: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, **environment}


async def test_rights_and_topics(clusters: ClusterPool) -> None:
    """Each right has its line: those of an account, without one of them, of no account, and with a wrong secret."""
    async with guarded(clusters) as here:
        reader, writer = here.reader, here.writer
        environment = {
            **signing("SOURCE", reader.name, reader.secret.reveal()),
            **signing("TARGET", writer.name, writer.secret.reveal()),
        }
        flags = ("--source", here.source.namesrv, "--target", here.target.namesrv, "--sync-groups", here.group)
        code, found = await doctor(*flags, "--topics", here.topic, environment=_with(environment))
        assert code == 0, found
        fine = told(found, "ok")
        assert fine["rights", f"source account {reader.name}"].splitlines() == [
            f"it may read topic {here.topic}",
            "it may use the group's system topics",
        ]
        assert f"it may create topic {here.topic}\n" in fine["rights", f"target account {writer.name}"]
        assert f"it may send to topic {here.topic}\n" in fine["rights", f"target account {writer.name}"]
        assert fine["source cluster", "accounts"] == fine["target cluster", "accounts"] == "checked by ACL 2.0\n"
        assert ("rights", f"target account {writer.name}") in told(found, "not checked")
        await here.target.put(
            dataclasses.replace(
                writer, rules=tuple(dataclasses.replace(r, actions=r.actions - {PUB}) for r in writer.rules)
            )
        )
        await create_topic(here.source.cluster, f"other-{here.topic}", queues=1)
        topics = ("--topics", f"(other-)?{here.topic}")
        code, found = await doctor(*flags, *topics, environment=_with(environment))
        assert code == 5
        errors = told(found, "error")
        assert f"it may not read topic other-{here.topic}" in errors["rights", f"source account {reader.name}"]
        assert f"it may not send to topic {here.topic}" in errors["rights", f"target account {writer.name}"]
        wrong = environment | {"REPLICATOR_SOURCE__SECRET_KEY": "wrong secret"}
        code, found = await doctor(*flags, environment=_with(wrong))
        assert code == 5
        (refused,) = [each for each in found["findings"] if "refused GET_BROKER_CONFIG (26)" in each["message"]]
        assert "access_key" in refused["advice"]
        printed = json.dumps(found)
        assert not [s for s in ("wrong secret", writer.secret.reveal()) if s in printed]
