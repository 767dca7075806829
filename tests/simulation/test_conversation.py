"""The in-memory broker answers as real ones do: one list of requests to both, and the answers are the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from replicator.sandbox import ClusterSpec
from tests.simulation.cluster import SimCluster
from tests.simulation.conversation import answers, conversation
from tests.simulation.kernel import Kernel, Process
from tests.simulation.loop import SimLoop
from tests.simulation.network import Host, Network
from tests.simulation.versions import VERSIONS
from tests.support.clusters import ClusterPool


def simulated(version: str, topic: str, *, cluster: str) -> list[dict[str, Any]]:
    """What a broker in memory says."""
    kernel = Kernel(1)
    network = Network(kernel)
    made = SimCluster(kernel, network, name=cluster, version=version, brokers=1, net="10.1.0")
    process = Process(kernel, "client")
    host = network.hosts["10.3.0.1"] = Host("10.3.0.1", process)
    loop = SimLoop(process, host, network)  # type: ignore[abstract]
    made.brokers[0].lag = 0.001
    places = {"broker": made.brokers[0].address, "namesrv": made.namesrv.address}
    tasks: list[asyncio.Task[list[dict[str, Any]]]] = []
    kernel.plan(
        2.0,
        lambda: loop.within(
            lambda: tasks.append(loop.create_task(answers(conversation(topic), topic=topic, **places)))
        ),
        process,
    )
    assert kernel.run(lambda: bool(tasks) and tasks[0].done(), seconds=60)
    return tasks[0].result()


@pytest.mark.parametrize("version", VERSIONS)
async def test_it_answers_as_real_brokers_do(
    clusters: ClusterPool, topic_name: Callable[..., str], version: str
) -> None:
    """Codes, remarks, fields, bodies and offsets, in the usual and in the odd cases."""
    spec = ClusterSpec(name="src", version=version)
    cluster, topic = await clusters.get(spec), topic_name()
    broker, namesrv = cluster.brokers[0].address, cluster.namesrv.split(",")[0]
    real = await answers(conversation(topic), broker=broker, namesrv=namesrv, topic=topic)
    loop = asyncio.get_running_loop()
    asyncio._set_running_loop(None)
    try:
        ours = simulated(version, topic, cluster="src")
    finally:
        asyncio._set_running_loop(loop)
    assert [each["asked"] for each in ours] == [each["asked"] for each in real]
    different = [(said, truth) for said, truth in zip(ours, real, strict=True) if said != truth]
    assert different == []
    assert len(real) > 50


@pytest.mark.parametrize("version", VERSIONS)
def test_a_conversation_in_memory_is_the_same_each_time(version: str) -> None:
    assert simulated(version, "t", cluster="src") == simulated(version, "t", cluster="src")
