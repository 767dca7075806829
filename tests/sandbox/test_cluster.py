"""Clusters really start, and their parts really stop, freeze, come back and forget, when told to."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from replicator.errors import SandboxError
from replicator.protocol.codes import Request
from replicator.sandbox import Broker, Cluster, ClusterSpec, jars, probe
from replicator.sandbox.class_archive import ClassArchive
from replicator.sandbox.process import ProcessId
from tests.support.clusters import ClusterPool
from tests.support.worker import until

OLD = ClusterSpec(name="sandbox", version="4.9.7", slaves=True)


async def config_of(broker: Broker, *, seconds: float = 2.0) -> str:
    answer = await probe.ask(("127.0.0.1", broker.port), Request.GET_BROKER_CONFIG, tls=None, seconds=seconds)
    return answer.body.decode() if answer else ""


def maps(pid: int, file: Path) -> bool:
    return str(file) in Path(f"/proc/{pid}/maps").read_text()


async def check(cluster: Cluster) -> None:
    [broker] = cluster.brokers
    settings = (await config_of(broker)).splitlines()
    assert f"brokerName={cluster.spec.name}-a" in settings
    assert "autoCreateTopicEnable=false" in settings
    assert await cluster.nameserver.lists(broker.address)
    assert await probe.accepts(("127.0.0.1", broker.port - 2))
    assert (cluster.access_key, cluster.secret_key) == ("", "")


async def test_4_9_7_serves(clusters: ClusterPool) -> None:
    await check(await clusters.get(OLD))


async def test_5_5_0_serves(clusters: ClusterPool) -> None:
    await check(await clusters.get(ClusterSpec(name="east", version="5.5.0")))


async def test_5_3_3_serves_and_a_proxy_finds_the_ports_of_its_routes_free(clusters: ClusterPool) -> None:
    spec = ClusterSpec(
        name="sandbox", version="5.3.3", broker_ip="127.0.0.2", properties={"maxMessageSize": "65536"}
    )
    async with clusters.fresh(spec) as cluster:
        await check(cluster)
        [broker] = cluster.brokers
        assert broker.address == f"127.0.0.2:{broker.port}"
        for port in (broker.port, broker.port - 2):
            socket.create_server(("127.0.0.2", port)).close()
        assert "maxMessageSize=65536" in (await config_of(broker)).splitlines()
        processes = [node.process_id for node in cluster.nodes]
    assert not any(process.running() for process in processes)


async def test_the_slave_is_registered(clusters: ClusterPool) -> None:
    cluster = await clusters.get(OLD)
    slave = cluster.brokers[0].slave
    assert slave is not None
    assert await cluster.nameserver.lists(slave.address)
    assert "brokerRole=SLAVE" in await config_of(slave)


async def test_a_killed_broker_comes_back_where_it_was(clusters: ClusterPool) -> None:
    cluster = await clusters.get(OLD)
    [broker] = cluster.brokers
    pid, address = broker.pid, broker.address
    await broker.kill()
    assert not broker.running
    assert not ProcessId.of(pid).running()
    assert not await broker.answers()
    with pytest.raises(SandboxError, match="does not run"):
        broker.pause()
    # Made when the cluster started, if not by another process, and used since then.
    archive = ClassArchive(OLD.version, jars.ensure(OLD.version))
    await until(lambda: not archive.wanted, what="the archive of classes")
    await broker.start()
    assert maps(broker.pid, archive.path)
    assert broker.pid != pid
    assert broker.address == address
    assert await broker.answers()
    with pytest.raises(SandboxError, match="runs already"):
        await broker.start()


async def test_a_paused_broker_takes_connections_and_says_nothing(clusters: ClusterPool) -> None:
    [broker] = (await clusters.get(OLD)).brokers
    broker.pause()
    try:
        assert await probe.accepts(("127.0.0.1", broker.port))
        assert await config_of(broker, seconds=0.5) == ""
    finally:
        broker.resume()
    assert await config_of(broker) != ""


async def test_restart_keeps_the_store_and_wipe_deletes_it(clusters: ClusterPool) -> None:
    [broker] = (await clusters.get(OLD)).brokers
    mark = broker.home / "store" / "mark"
    mark.touch()
    await broker.restart()
    assert mark.exists()
    with pytest.raises(SandboxError, match="runs: stop it"):
        broker.wipe()
    await broker.kill()
    broker.wipe()
    assert not mark.exists()
    await broker.start()
    assert (broker.home / "store").is_dir()


async def test_brokers_find_a_restarted_name_server(clusters: ClusterPool) -> None:
    cluster = await clusters.get(OLD)
    await cluster.nameserver.kill()
    assert not await cluster.nameserver.answers()
    await cluster.nameserver.start()
    await cluster.registered()
    assert await cluster.nameserver.lists(cluster.brokers[0].address)


async def test_a_failed_start_shows_the_log_and_leaves_nothing(clusters: ClusterPool) -> None:
    cluster = clusters.fresh(ClusterSpec(name="broken", version="4.9.7", properties={"brokerRole": "SLAVE"}))
    with pytest.raises(SandboxError, match="broken-a ended with code") as caught:
        await cluster.start()
    assert "brokerId must be > 0" in str(caught.value)
    assert str(cluster.directory / "broken-a" / "console.log") in str(caught.value)
    assert not cluster.nameserver.running


PARENT = """
import asyncio, sys
from pathlib import Path
from replicator.sandbox import Cluster, ClusterSpec

async def main():
    async with Cluster(ClusterSpec(name="orphan", version="4.9.7"), directory=Path(sys.argv[1])) as cluster:
        print(*(node.pid for node in cluster.nodes), flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.brokers
def test_nothing_outlives_a_killed_parent(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            children = [ProcessId.of(int(pid)) for pid in parent.stdout.readline().split()]
            assert [child.running() for child in children] == [True, True]
            assert os.getsid(children[0].pid) != os.getsid(0)
        finally:
            parent.kill()
    deadline = time.monotonic() + 10
    try:
        while any(child.running() for child in children):
            assert time.monotonic() < deadline, "a JVM outlived its parent"
            time.sleep(0.05)
    finally:
        for child in children:
            child.signal(signal.SIGKILL)
