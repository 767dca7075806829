"""What guides say to type, typed: workers in several processes and a switch, one's own clusters, accounts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator.sandbox import ClusterSpec
from tests.support.acl_scene import MIDDLE, NEW, between
from tests.support.clusters import ClusterPool
from tests.support.guide import Guide
from tests.support.least_rights import Guarded
from tests.support.terminal import Terminal
from tests.support.traffic import create_topic, produce, topics_of
from tests.support.worker import signing

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


def looked_at(shell: Terminal, steps: Guide, help_: Guide, upgrade: Guide) -> None:
    """A route between one's own clusters from the doctor to the switch, and what one types when in doubt."""
    assert "0 errors" in shell.type(steps.take("replicator doctor --source A"))
    assert "payments-test" in shell.type(steps.take("replicator config check --config route.toml"))
    shell.begin(steps.take("replicator --source A --target B --topics"))
    shell.until("replicator lag", r"payments-card +RUNNING +0 ")
    assert "ok" not in shell.type(help_.take("replicator doctor --config route.toml --quiet"))
    for guide in (help_, upgrade, upgrade):
        assert "ONLINE" in shell.type(guide.take("replicator cluster"))
    assert "orders" in shell.type(help_.take("replicator lag"))
    assert "RUNNING" in shell.type(help_.take("replicator connectors status NAME"))
    assert "source and target agree" in shell.type(help_.take("replicator verify"))
    shell.type(steps.take("replicator plan"))
    shell.until(steps.take("replicator readiness"), "ready to switch")
    assert "all that the source had is at the target" in shell.type(steps.take("replicator failover"))


async def test_ones_own_clusters(clusters: ClusterPool, tmp_path: Path) -> None:
    """Of docs/FIRST_STEPS.md and docs/UPGRADE.md, and of the Chinese page on what is wrong."""
    steps = Guide(DOCS / "FIRST_STEPS.md", "Your own clusters", "Topics, groups, offsets")
    help_, upgrade = Guide(DOCS / "zh" / "troubleshooting.md"), Guide(DOCS / "UPGRADE.md")
    async with clusters.fresh(EAST) as east, clusters.fresh(WEST) as west:
        for topic in ("orders", "payments-card", "payments-test"):
            await create_topic(east, topic, queues=2)
            await produce(east, topic, 100)
        names = {"A": east.namesrv, "B": west.namesrv, "NAME": "route"}
        with Terminal(tmp_path, names) as shell:
            chosen = 'topics = ["orders", "payments-.*"]\nexclude_topics = ["payments-test"]\n'
            (tmp_path / "route.toml").write_text(
                f'{chosen}source = "{east.namesrv}"\ntarget = "{west.namesrv}"\n', encoding="utf-8"
            )
            await asyncio.to_thread(looked_at, shell, steps, help_, upgrade)
        assert {"orders", "payments-card"} <= {*(await topics_of(west))["west-a"]}
        assert "payments-test" not in (await topics_of(west))["west-a"]
    assert [line.split()[0] for line in steps.left] == ["export", "replicator"], "the secrets of guarded clusters"
    assert help_.left == []
    assert [line.split()[0] for line in upgrade.left] == ["pip", "systemctl"], "what changes the machine"


async def test_guarded_clusters(clusters: ClusterPool, tmp_path: Path) -> None:
    """Secrets of docs/FIRST_STEPS.md, and the accounts that docs/ACL.md brings over."""
    steps, page = Guide(DOCS / "FIRST_STEPS.md", "Your own clusters"), Guide(DOCS / "ACL.md")
    async with clusters.fresh(MIDDLE) as east, clusters.fresh(NEW) as west, between(east, west) as scene:
        here = Guarded(scene.source, scene.target, scene.name)
        await here.source.put(here.reader)
        await here.target.put(here.writer)
        await create_topic(east, here.topic, queues=2)
        await produce(east, here.topic, 100)
        words = steps.take("export REPLICATOR_SOURCE").split()[1:]
        reader = signing("SOURCE", here.reader.name, here.reader.secret.reveal())
        assert [word.partition("=")[0] for word in words] == [*reader]
        secrets = {"writer": here.writer.secret.reveal(), "east": east.secret_key, "west": west.secret_key}
        for name, secret in secrets.items():
            (tmp_path / name).touch(0o600)
            (tmp_path / name).write_text(secret)
        names = {
            "A": east.namesrv,
            "B": west.namesrv,
            "--target-access-key replicator": f"--target-access-key {here.writer.name}",
            "/run/secrets/rocketmq": str(tmp_path / "writer"),
        }
        with Terminal(tmp_path / "route", names, reader) as shell:
            await asyncio.to_thread(shell.begin, steps.take("replicator --source A --target B --target-access-key"))
            await asyncio.to_thread(shell.until, "replicator lag", rf"{here.topic} +RUNNING +0 ")
        admins = (
            f"--source-access-key {east.access_key} --source-secret-key-file {tmp_path / 'east'}"
            f" --target-access-key {west.access_key} --target-secret-key-file {tmp_path / 'west'}"
        )
        clusters_of_page = f"--source {east.namesrv} --target {west.namesrv}"
        names = {
            "--source east:9876 --target west:9876": clusters_of_page,
            "--source-access-key … --source-secret-key-file …": admins,
            "--yes …": f"--yes {clusters_of_page} {admins}",
        }
        with Terminal(tmp_path / "accounts", names) as shell:
            assert here.reader.name in await asyncio.to_thread(shell.type, page.take("replicator acl plan"))
            await asyncio.to_thread(shell.type, page.take("replicator acl apply"))
        (there,) = (await here.target.states()).values()
        assert here.reader.name in there.accounts
    assert [line for line in page.left if line.startswith("replicator")] == []
