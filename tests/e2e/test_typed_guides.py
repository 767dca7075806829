"""What docs/WORKERS.md and docs/METADATA.md say to type, typed: workers in several processes, and a switch."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator.sandbox import ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.guide import Guide
from tests.support.terminal import Terminal
from tests.support.traffic import create_topic, produce, topics_of

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(300)]

DOCS = Path(__file__).parent.parent.parent / "docs"
EAST, WEST = ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.5.0")
#: What is typed once for each of these words stands in the guide once.
CHOICE = re.compile(r"\b[a-z]+(?:\|[a-z]+)+\b")


def each(line: str) -> Iterator[str]:
    """The commands that one with `this|that` stands for."""
    choice = CHOICE.search(line)
    if choice is None:
        yield line
    else:
        yield from (line.replace(choice[0], word) for word in choice[0].split("|"))


def typed(shell: Terminal, workers: Guide, metadata: Guide) -> None:
    """All of both pages but the first worker, which runs."""
    shell.until("replicator lag", r"orders +RUNNING +0 ")
    assert "LEFT" not in shell.type(workers.take("replicator cluster"))
    assert "orders" in shell.type(workers.take("replicator top"))
    assert "orders" in shell.type(workers.take("replicator lag"))
    assert re.search(r"route +orders +RUNNING", shell.type(workers.take("replicator allocated")))
    assert "RUNNING" in shell.type(workers.take("replicator connectors status route"))
    shell.type(workers.take("replicator connectors update route"))
    shell.type(workers.take("replicator connectors create audit"))
    shell.until("replicator lag", r"audit +RUNNING +0 ")
    shell.names |= {"broker-a 3 4711": "east-a 0 5", "order-4711": "k5"}
    shell.until(workers.take("replicator where orders broker-a"), r"west-a +0 +5")
    shell.until(workers.take("replicator where orders --key"), r"west-a")
    shell.type(metadata.take("replicator plan"))
    shell.type(metadata.take("replicator apply"))
    shell.until(metadata.take("replicator readiness"), "ready to switch")
    assert "all that the source had is at the target" in shell.type(metadata.take("replicator failover"))
    (line,) = [line for line in workers.left if "pause|" in line]
    workers.left.remove(line)
    for command in each(line):
        shell.type(command)


async def test_workers_and_metadata(clusters: ClusterPool, tmp_path: Path) -> None:
    """Two processes by one command, and each command that asks them."""
    workers, metadata = Guide(DOCS / "WORKERS.md"), Guide(DOCS / "METADATA.md")
    async with clusters.fresh(EAST) as east, clusters.fresh(WEST) as west:
        for topic in ("orders", "audit"):
            await create_topic(east, topic, queues=4)
            await produce(east, topic, 100)
        with Terminal(tmp_path, {"A": east.namesrv, "B": west.namesrv, "--workers 4": "--workers 2"}) as shell:
            workers.take("replicator --source A --target B")
            await asyncio.to_thread(shell.begin, workers.take("replicator --source A --target B --workers"))
            await asyncio.to_thread(typed, shell, workers, metadata)
        assert "copy-of-audit" in (await topics_of(west))["west-a"]
    assert workers.left == []
    assert metadata.left == []
