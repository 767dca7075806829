"""What docs/SPARK.md and docs/FIRST_STEPS.md say to type about Spark, typed; Spark is local."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from replicator.sandbox import ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.guide import Guide
from tests.support.terminal import Terminal
from tests.support.traffic import create_topic, judge, produce

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.timeout(1200)]

DOCS = Path(__file__).parent.parent.parent / "docs"
EAST, WEST = ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.3.3")
TOPICS = ("orders", "payments-card")


class Typist:
    """Types what both pages say, at two clusters, and at a third one that archives are brought to."""

    def __init__(self, shell: Terminal) -> None:
        self.shell = shell
        self.page = Guide(DOCS / "SPARK.md")
        self.steps = Guide(DOCS / "FIRST_STEPS.md", "Before and after, with Spark")

    def jobs(self) -> None:
        """What was there before, and whether it has arrived."""
        self.shell.type(self.page.take("replicator spark-package"))
        assert (self.shell.directory / "DIR" / "replicator.zip").exists()
        for _ in range(2):  # of which the second has nothing left to do
            self.shell.type(self.page.take("replicator backfill --source A"))
        (self.shell.directory / "replicator-store" / "backfill.json").unlink()  # it is of other topics
        self.shell.type(self.steps.take("replicator backfill --source A"))
        for guide in (self.page, self.steps):
            assert "source and target agree" in self.shell.type(guide.take("replicator verify"))
        assert (self.shell.directory / "report.md").exists()

    def routes(self) -> None:
        """Each takes over from the one before."""
        for guide, begin in (
            (self.page, "replicator --source A --target B --topics 'orders,payments-.*'"),
            (self.page, "replicator --source A --target B --backfill"),
            (self.page, "replicator --source A --target B --spark-master"),
            (self.steps, "replicator --source A --target B --topics orders --backfill"),
            (self.page, "replicator --source A --target B --topics 'orders,payments-.*' --engine spark"),
            (self.steps, "replicator --source A --target B --topics orders --engine spark"),
        ):
            running = self.shell.begin(guide.take(begin))
            self.shell.until("replicator lag", r"orders +RUNNING +0 ")
            running.send_signal(signal.SIGINT)
            assert running.wait(120) == 0, begin

    def archives(self) -> None:
        """Out, and in again somewhere else."""
        self.shell.type(self.page.take("replicator export archive"))
        self.shell.type(self.steps.take("replicator export archive"), code=78)  # begun with other topics
        self.shell.type(self.page.take("replicator import archive"))


async def test_commands_about_spark(clusters: ClusterPool, tmp_path: Path) -> None:
    async with clusters.fresh(EAST) as east, clusters.fresh(WEST) as west:
        for topic in TOPICS:
            await create_topic(east, topic, queues=2)
            await produce(east, topic, 100)
        names = {"A": east.namesrv, "B": west.namesrv, "spark://host:7077": "local[2]"}
        with Terminal(tmp_path, names) as shell:
            typist = Typist(shell)
            await asyncio.to_thread(typist.jobs)
            await produce(east, "orders", 50, start=100)
            await asyncio.to_thread(typist.routes)
            for topic in TOPICS:
                verdict = await judge(east, west, topic)
                assert verdict.clean, verdict.report()
            async with clusters.fresh(WEST) as third:
                shell.names["B"] = third.namesrv
                await asyncio.to_thread(typist.archives)
                verdict = await judge(east, third, "orders")
                assert (verdict.clean, verdict.copies) == (True, 150), verdict.report()
    assert typist.steps.left == []
    left = [line for line in typist.page.left if "replicator " in line and not line.startswith("from ")]
    assert all(line.startswith("SPARK_CONF_DIR=") for line in left), (
        "those of a cluster are typed in test_cluster.py"
    )
    assert len(left) == 1
