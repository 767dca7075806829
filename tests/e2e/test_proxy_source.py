"""A source of which nothing but a Proxy's remoting port is reached: named topics are copied, and groups go on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.admin.pending_messages import UNTOLD
from replicator.exit_codes import ExitCode
from replicator.sandbox import Cluster, ClusterSpec, tls
from tests.support.clusters import ClusterPool
from tests.support.compatibility_record import tried
from tests.support.guide import Guide
from tests.support.offsets import commit, make_group
from tests.support.readiness import asked, exact, ready
from tests.support.replicas import Replicas, know_topic
from tests.support.terminal import Terminal
from tests.support.traffic import Producer, create_topic, judge, produce, raw_topic, remove_topic, topics_of
from tests.support.worker import Worker, command, group_of_test, until

pytestmark = pytest.mark.timeout(300)

EAST = ClusterSpec(name="east", version="5.3.3", brokers=2, proxy=True)
NEWER = ClusterSpec(name="east", version="5.5.0", brokers=2, proxy=True)
WEST = ClusterSpec(name="west", version="5.5.0")


def flags(topic: str, *more: str) -> tuple[str, ...]:
    return ("--source-proxy", "--topics", topic, "--coordination", "target", "--session-timeout", "3", *more)


async def same_bytes(source: Cluster, target: Cluster, topic: str) -> None:
    """Queue by queue the bodies of the source are those of one queue of the target, in their order."""
    here, there = await raw_topic(source, topic), await raw_topic(target, topic)
    copies = sorted([message.body for message in messages] for messages in there.values())
    assert sorted([message.body for message in messages] for messages in here.values()) == copies


@pytest.mark.parametrize("spec", [EAST, NEWER], ids=["5.3.3", "5.5.0"])
async def test_named_topics_are_copied_through_a_proxy(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], spec: ClusterSpec
) -> None:
    """Without repeats over kill -9 of the worker, and restarts of the Proxy and of a broker behind it."""
    topic, group = topic_name("t"), topic_name("g")
    target = await clusters.get(WEST)
    async with clusters.lent(spec) as source:
        tried(source.spec.version, target.spec.version)
        await create_topic(source, topic, queues=3)
        await make_group(source, group)
        await make_group(target, group)
        await produce(source, topic, 3000)
        before = await topics_of(source)
        slowly = ("--rate-messages", "1000", "--sync", "offsets", "--sync-groups", group)
        more = (*slowly, "--sync-offsets-interval", "0.5")
        async with Worker(source.proxy.remoting_address, target, tmp_path / "w", *flags(topic, *more)) as worker:
            assert "of the source only a Proxy is reached" in worker.log
            await until(lambda: worker.topic(topic).get("copied", 0) > 500)
            await worker.kill()
            await worker.start()
            await until(lambda: worker.topic(topic).get("copied", 0) > 500)
            await source.proxy.kill()
            await asyncio.sleep(1)
            await source.proxy.start()
            await worker.caught_up(topic, 0)
            await worker.set_rates()
            await produce(source, topic, 500, start=3000)
            await source.brokers[0].restart()
            await produce(source, topic, 500, start=3500)
            await until(lambda: _all_copied(source, target, topic), what="all is copied")
            lanes = {(broker.name, queue): 10 + queue for broker in source.brokers for queue in range(3)}
            await commit(source, group, topic, lanes)
            await until(lambda: _agree(source, target, group, topic), what="the group's offsets")
            told = await ready(worker)
            assert told["pending"]["problems"] == [UNTOLD]
            assert worker.metric("audit_differences_total") == 0
            done = await asked(worker, "POST", "failover", {"drain_timeout": 20})
            assert (done["drained"], done["problems"]) == (True, [])
        verdict = await judge(source, target, topic)
        assert verdict.clean, verdict.report()
        assert verdict.copies == 4000
        await same_bytes(source, target, topic)
        assert await topics_of(source) == before


async def _all_copied(source: Cluster, target: Cluster, topic: str) -> bool:
    here, there = await raw_topic(source, topic), await raw_topic(target, topic)
    return sum(map(len, here.values())) == sum(map(len, there.values())) == 4000


async def _agree(source: Cluster, target: Cluster, group: str, topic: str) -> bool:
    try:
        await exact(source, target, group, topic)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("version", ["5.3.3", "5.5.0"])
async def test_a_proxy_with_tls(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], version: str
) -> None:
    """Its certificate is checked; without TLS, or with another authority, the start says so."""
    topic, group = topic_name("t"), topic_name("g")
    encrypted = ClusterSpec(name="east", version=version, brokers=2, tls=True, proxy=True)
    source, target = await clusters.pair(encrypted, WEST)
    await create_topic(source, topic, queues=2)
    await produce(source, topic, 400)
    for cluster in (source, target):
        await make_group(cluster, group)
    await commit(source, group, topic, {("east-a", 0): 30, ("east-b", 1): 40})
    proxy = source.proxy.remoting_address
    given = flags(topic, "--sync", "offsets", "--sync-groups", group, "--sync-offsets-interval", "0.5")
    verified = ("--source-tls-mode", "verify", "--source-tls-ca-file")
    other = str(tls.make(tmp_path / "tls", client_auth=False).ca)
    for number, wrong in enumerate([(), (*verified, other)]):
        refused = Worker(proxy, target, tmp_path / f"{number}", *given, *wrong)
        await refused.start(ready=False)
        assert await refused.wait() == ExitCode.UNUSABLE
    assert "its certificate is not trusted" in refused.log
    async with Worker(proxy, target, tmp_path / "worker", *given, *verified, str(source.ca_file)) as worker:
        await worker.caught_up(topic, 400)
        await ready(worker)
        await exact(source, target, group, topic)
        await source.proxy.kill()
        await produce(source, topic, 100, start=400)
        await source.proxy.start()
        await worker.caught_up(topic, 500)
        assert await worker.drain() == 0
    await same_bytes(source, target, topic)


async def test_a_proxy_that_is_not_there(clusters: ClusterPool, tmp_path: Path) -> None:
    """The error of a worker, and of the doctor, is about a Proxy."""
    target, nobody = await clusters.get(WEST), "127.0.0.1:1"
    worker = Worker(nobody, target, tmp_path, *flags("orders"))
    await worker.start(ready=False)
    await until(lambda: worker.exit_code is not None, what="it ends")
    given = ("--source", nobody, "--target", target.namesrv, *flags("orders"))
    examined = await asyncio.to_thread(command, {}, "doctor", "-o", "json", *given)
    for said in (worker.log, examined.stdout):
        assert "check the address, that the Proxy runs, and TLS" in said
        assert "name server runs" not in said


async def test_another_replica_becomes_the_master_behind_a_proxy(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """By election, under load; the former one is back at once, as a slave that has less."""
    topic, target = topic_name("t"), await clusters.get(WEST)
    async with clusters.fresh(ClusterSpec(name="elected", version="5.3.3", ha="controller", proxy=True)) as source:
        await create_topic(source, topic, queues=1)
        replicas = Replicas(source)
        await know_topic((await replicas.roles())[1], topic)
        async with Worker(source.proxy.remoting_address, target, tmp_path, *flags(topic)) as worker:
            async with Producer(source, topic, per_second=1000, patient=True) as producer:
                await until(lambda: worker.has_copied(topic, 500))
                former = await replicas.fail_over()
                await former.start()
                await worker.goes_on(topic, 500)
            await worker.caught_up(topic, producer.acknowledged, in_all=True)
            assert worker.metric("source_resets_total") == 0
            shown = worker.topic(topic)
            assert (shown["gap_messages"], shown["duplicates"], shown["foreign"]) == (0, 0, 0)
        verdict = await judge(source, target, topic)
        assert verdict.clean, verdict.report()


async def test_what_waits_is_read_fast(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """A Proxy leaves out answers that it cannot write at once: each pull has a connection to itself."""
    topic = topic_name("t")
    source, target = await clusters.pair(EAST, WEST)
    await create_topic(source, topic, queues=2)
    await produce(source, topic, 30_000, size=1000)
    async with Worker(source.proxy.remoting_address, target, tmp_path, *flags(topic)) as worker:
        await worker.caught_up(topic, 30_000, seconds=30)
        assert "did not answer" not in worker.log
    await same_bytes(source, target, topic)


async def test_a_recreated_topic_is_copied_from_its_first_message(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Also where it has grown beyond the position when it is seen again."""
    topic = topic_name("t")
    source, target = await clusters.pair(EAST, WEST)
    await create_topic(source, topic, queues=2)
    await produce(source, topic, 100)
    async with Worker(source.proxy.remoting_address, target, tmp_path, *flags(topic)) as worker:
        await worker.caught_up(topic, 100)
        await remove_topic(source, topic)
        await until(lambda: any(queue["state"] == "WAITING" for queue in worker.queues(topic)))
        await create_topic(source, topic, queues=2)
        await produce(source, topic, 400, start=100)
        await until(lambda: _copied(target, topic, 500), what="all is copied")
        assert worker.metric("source_resets_total") == 4
    bodies = [message.body for queue in (await raw_topic(target, topic)).values() for message in queue]
    assert len({*bodies}) == 500


async def test_doctor_says_what_a_proxy_does_not_tell(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """None of that is an error, or a warning."""
    topic, group = topic_name("t"), topic_name("g")
    source, target = await clusters.pair(EAST, WEST)
    await create_topic(source, topic, queues=2)
    await make_group(target, group)
    sides = ("--source", source.proxy.remoting_address, "--target", target.namesrv, "--sync-groups", group)
    more = ("--store-path", str(tmp_path), "-o", "json")
    done = await asyncio.to_thread(command, {}, "doctor", *sides, *flags(topic), *more)
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout
    assert {each["check"] for each in found["findings"] if each["level"] == "warning"} <= {
        "this machine",
        "other group",
    }
    untold = [each for each in found["findings"] if each["level"] == "not checked"]
    assert len(untold) == 5
    assert all("because a Proxy does not tell them" in each["message"] for each in untold)
    good = [each["message"] for each in found["findings"] if each["level"] == "ok"]
    assert "the target takes its offsets" in good
    assert "messages are copied from east to west" in good


async def test_what_the_page_says_to_type(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """The one command of docs/WAN.md copies both topics."""
    page = Guide(Path(__file__).parent.parent.parent / "docs" / "WAN.md")
    orders, payments = topic_name("orders"), topic_name("payments")
    source, target = await clusters.pair(EAST, WEST)
    for topic in (orders, payments):
        await create_topic(source, topic, queues=2)
        await produce(source, topic, 100)
    names = {
        "PROXY:8080": source.proxy.remoting_address,
        "NAMESRV:9876": target.namesrv,
        "orders,payments": f"{orders},{payments}",
    }
    with Terminal(tmp_path, names, {"REPLICATOR_WORKER_GROUP": group_of_test()}) as shell:
        shell.begin(page.take("replicator --source PROXY:8080 --source-proxy"))
        for topic in (orders, payments):
            await asyncio.to_thread(shell.until, "replicator lag", rf"{topic} +RUNNING +0 ")
    for topic in (orders, payments):
        verdict = await judge(source, target, topic)
        assert verdict.clean, verdict.report()
        assert verdict.copies == 100
    assert page.left == []


async def test_a_connector_names_topics_of_its_own(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Those that the worker was not started with are found; what a Proxy does not serve is refused over REST."""
    topic, later, more = topic_name("t"), topic_name("u"), "/connectors/more"
    source, target = await clusters.pair(EAST, WEST)
    for name in (topic, later):
        await create_topic(source, name, queues=2)
        await produce(source, name, 100)
    async with Worker(source.proxy.remoting_address, target, tmp_path / "w", *flags(topic)) as worker:
        await worker.caught_up(topic, 100)
        status, answer = await asyncio.to_thread(worker.ask, "PUT", more, {"topics": [f"{later}.*"]})
        assert (status, "is a pattern" in str(answer)) == (400, True)
        assert (await asyncio.to_thread(worker.ask, "PUT", more, {"topics": [later]}))[0] == 200
        await until(lambda: _copied(target, later, 100), what="the other topic is copied")
    verdict = await judge(source, target, later)
    assert verdict.clean, verdict.report()


async def _copied(target: Cluster, topic: str, count: int) -> bool:
    return sum(map(len, (await raw_topic(target, topic)).values())) == count


async def test_what_does_not_work_through_a_proxy_is_refused_by_name(clusters: ClusterPool, tmp_path: Path) -> None:
    """In the place of name servers, as a target, and with settings that it does not serve."""
    source, target = await clusters.pair(EAST, WEST)
    proxy, named = ("--source", source.proxy.remoting_address), ("--topics", "orders", "--coordination", "target")
    for given, words in (
        ((*proxy, *named), "is a Proxy, not a name server; a Proxy cannot be asked for all topics"),
        ((*proxy, *named), "source.proxy copies topics that are named"),
        (("--source", source.namesrv, "--source-proxy", *named), "is a name server, not a Proxy"),
        (
            (*proxy, "--source-proxy"),
            "topics = '.*' is a pattern, and a Proxy does not tell which topics there are",
        ),
        ((*proxy, "--source-proxy"), "set coordination = target"),
        ((*proxy, "--source-proxy", *named, "--sync", "topics"), "sync has topics, which a Proxy does not tell of"),
        (("--source", source.namesrv, "--target-proxy"), "target.proxy is set, but a Proxy creates no topics"),
    ):
        flags = (*given, "--target", target.namesrv, "--store-path", str(tmp_path))
        done = await asyncio.to_thread(command, {}, *flags)
        assert done.returncode in (ExitCode.BAD_CONFIG, ExitCode.UNUSABLE), done.stderr
        assert words in " ".join(done.stderr.split()), done.stderr
    environment = {"REPLICATOR_COORDINATION": "target"}
    sides = (*proxy, "--source-proxy", "--target", target.namesrv, "--topics", "orders")
    done = await asyncio.to_thread(command, environment, "verify", *sides)
    assert "proxy is set, but this command asks name servers and brokers" in " ".join(done.stderr.split())
