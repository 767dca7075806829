"""What docs/MIGRATION.md says to type, typed: from 4.9.7 with ACL 1.0 to 5.5.0 with 2.0, there and back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from acl_sync.model import SUB, Kind, Rule
from replicator.sandbox import Cluster, ClusterSpec
from tests.client.peer import unused_port
from tests.support.accounts import account, topic
from tests.support.acl_scene import Side
from tests.support.clusters import ClusterPool
from tests.support.guarded import access
from tests.support.guide import Guide, commands_of
from tests.support.javatool import Credentials, java_consume
from tests.support.offsets import offsets_of
from tests.support.terminal import Terminal
from tests.support.traffic import create_topic, produce, read_topic, topics_of
from tests.support.worker import until

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.timeout(600)]

PAGE = Path(__file__).parent.parent.parent / "docs" / "MIGRATION.md"
OLD, NEW = ClusterSpec(name="old", version="4.9.7"), ClusterSpec(name="new", version="5.5.0")
GUARDED_OLD = ClusterSpec(name="old", version="4.9.7", acl="1.0")
GUARDED_NEW = ClusterSpec(name="new", version="5.5.0", acl="2.0")
READERS = Rule(kind=Kind.GROUP, name="readers", actions=frozenset({SUB}))
PASSWORD = "the-same-password"


async def keys(cluster: Cluster, name: str) -> list[str]:
    """Of all messages of a topic there."""
    return sorted(message.keys for message in await read_topic(cluster, name))


async def has_each_once(cluster: Cluster, name: str, count: int) -> None:
    """Waits until all of them are there, and sees that none is there twice."""

    async def arrived() -> bool:
        return len(await keys(cluster, name)) >= count

    await until(arrived, what=f"{count} messages of {name}")
    assert await keys(cluster, name) == numbered(count)


def numbered(count: int) -> list[str]:
    """The keys that `produce` gives to so many messages."""
    return sorted(f"k{number}" for number in range(count))


def test_every_command_is_typed_by_one_of_these() -> None:
    sections = [part for part in PAGE.read_text(encoding="utf-8").split("\n## ") if commands_of(part)]
    assert [part.partition(" ")[0] for part in sections] == ["2.", "3.", "4.", "5.", "6.", "7."]


async def test_there_and_back(clusters: ClusterPool, tmp_path: Path) -> None:
    """A group goes on where it stopped, with its password; stragglers come along; each message is on both once."""
    guide = Guide(PAGE, "2.", "3.", "4.", "6.", "7.")
    async with clusters.fresh(GUARDED_OLD) as old, clusters.fresh(GUARDED_NEW) as new:
        await create_topic(old, "orders", queues=2)
        await produce(old, "orders", 200)
        await Side(old).put(account("application", topic("orders", SUB), READERS, secret=PASSWORD))
        first = await consumed(old, 50)
        names = {"OLD": old.namesrv, "NEW": new.namesrv, "8083": str(unused_port())}
        with Terminal(tmp_path, names, access("SOURCE", old) | access("TARGET", new)) as shell:
            await asyncio.to_thread(first_start, shell, guide)
            await asyncio.to_thread(check, shell, guide)
            await until(lambda: offsets_of(new, "readers", "orders"), what="offsets of the group")
            await asyncio.to_thread(switch, shell, guide)
            assert sorted(first + await consumed(new, 150)) == numbered(200)
            await stragglers(shell, guide, old, new)
            await way_back(shell, guide, old, new)
    assert guide.left == []


async def consumed(cluster: Cluster, count: int) -> list[str]:
    """What the application's consumers get next, with its account."""
    who = Credentials("application", PASSWORD)
    read = await java_consume(cluster.namesrv, "orders", group="readers", count=count, idle=40, credentials=who)
    return [message.properties["KEYS"] for message in read]


def first_start(shell: Terminal, guide: Guide) -> None:
    """Section 2: settings, doctor, worker, accounts."""
    assert "rmq-49" in shell.type(guide.take("replicator config check"))
    assert "0 errors" in shell.type(guide.take("replicator doctor"))
    shell.begin(guide.take("replicator --source OLD"))
    assert "application" in shell.type(guide.take("replicator acl plan"))
    assert "application" in shell.answer(guide.take("replicator acl apply"), "y")


def check(shell: Terminal, guide: Guide) -> None:
    """Section 3: all is copied, and it is the same."""
    shell.until(guide.take("replicator lag"), r"orders .* 0 ")
    shell.type(guide.take("replicator plan"))
    assert "RUNNING" in shell.type(guide.take("replicator connectors status route"))
    shell.type(guide.take("replicator verify"))


def switch(shell: Terminal, guide: Guide) -> None:
    """Sections 4 and 5."""
    shell.until(guide.take("replicator readiness"), "ready to switch")
    shell.type(guide.take("replicator failover --dry-run"))
    assert "all that the source had is at the target" in shell.type("replicator failover")


async def stragglers(shell: Terminal, guide: Guide, old: Cluster, new: Cluster) -> None:
    """Section 6: what a forgotten producer sends to the old cluster after the switch."""
    assert await perm(new) == 6
    await asyncio.to_thread(shell.type, guide.take("replicator connectors update"))
    await asyncio.to_thread(shell.type, guide.take("replicator connectors resume"))
    await produce(old, "orders", 20, start=200)
    await has_each_once(new, "orders", 220)
    assert await perm(new) == 6
    await asyncio.to_thread(shell.type, "replicator connectors stop route")


async def way_back(shell: Terminal, guide: Guide, old: Cluster, new: Cluster) -> None:
    """Section 7: what is born at the new cluster is copied to the old one; back there, and to the new one again."""
    line = guide.take("replicator --source NEW")
    await asyncio.to_thread(shell.begin, line, **access("SOURCE", new), **access("TARGET", old))
    resume = "replicator connectors resume route --url http://127.0.0.1:8083"
    await asyncio.to_thread(shell.until, resume, "route runs")
    await produce(new, "orders", 30, start=220)
    await has_each_once(old, "orders", 250)
    undo = "replicator connectors update route sync=topics,groups,offsets,pending protect_target=true"
    await asyncio.to_thread(shell.type, undo)
    await asyncio.to_thread(shell.type, guide.take("replicator failback"))
    await protected(new)
    assert await perm(old) == 6
    await produce(old, "orders", 10, start=250)
    await has_each_once(new, "orders", 260)
    await asyncio.to_thread(shell.type, guide.take("replicator reverse"))
    await protected(old)
    assert await perm(new) == 6
    await produce(new, "orders", 10, start=260)
    await has_each_once(old, "orders", 270)
    await has_each_once(new, "orders", 270)


async def test_topic_by_topic(clusters: ClusterPool, tmp_path: Path) -> None:
    """One connector is switched, and the other one still copies."""
    guide = Guide(PAGE, "5.")
    async with clusters.fresh(OLD) as old, clusters.fresh(NEW) as new:
        for name in ("orders", "payments-eu"):
            await create_topic(old, name, queues=2)
            await produce(old, name, 20)
        with Terminal(tmp_path, {"OLD": old.namesrv, "NEW": new.namesrv}) as shell:
            await asyncio.to_thread(shell.begin, guide.take("replicator --source OLD"))
            await has_each_once(new, "orders", 20)
            assert "payments-eu" not in (await topics_of(new))["new-a"]
            await asyncio.to_thread(shell.type, guide.take("replicator connectors create payments"))
            await has_each_once(new, "payments-eu", 20)
            line = guide.take("replicator readiness --connector payments")
            await asyncio.to_thread(shell.until, line, "ready to switch")
            await asyncio.to_thread(shell.type, guide.take("replicator failover --connector payments"))
            assert (await perm(new, "payments-eu"), await perm(new)) == (6, 4)
            await produce(old, "orders", 20, start=20)
            await has_each_once(new, "orders", 40)
    assert guide.left == []


async def protected(cluster: Cluster) -> None:
    """Waits until its topic is read-only, as that of a running route with `protect_target` is."""

    async def is_read_only() -> bool:
        return await perm(cluster) == 4

    await until(is_read_only, what="read-only")


async def perm(cluster: Cluster, name: str = "orders") -> int:
    (topics,) = (await topics_of(cluster)).values()
    return topics[name].perm
