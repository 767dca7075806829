"""The rights that the replicator's own accounts need, as docs/ACL.md has them, and what happens without one."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path

import pytest

from acl_sync.model import GET, PUB, SUB, Account, Dialect, Kind, Rule
from replicator.client.brokers import read_settings
from replicator.client.security import Credentials
from replicator.client.system_topics import SCHEDULE_TOPIC
from replicator.client.topics import READABLE, TopicConfig, write_topic
from replicator.errors import BrokerRefused
from replicator.sandbox import ClusterSpec
from tests.support.accounts import account, topic
from tests.support.acl_scene import MIDDLE, NEW, OLD_PAIR, Scene, Side, a_scene
from tests.support.alerts import fires, rests, watching
from tests.support.clusters import ClusterPool
from tests.support.guarded import access
from tests.support.least_rights import CREATE, guarded, right, without
from tests.support.traffic import connected, create_topic, produce, topics_of
from tests.support.worker import Worker, signing, until

pytestmark = pytest.mark.side_by_side("guarded")


async def refused(worker: Worker) -> str:
    """Starts a worker that ends with 3; the line that says why."""
    await worker.start(ready=False)
    try:
        assert await worker.wait() == 3, worker.log
    finally:
        await worker.kill()
    (line,) = [line for line in worker.log.splitlines() if line.startswith("replicator: ")]
    return line


async def test_without_the_right_to_what_waits(clusters: ClusterPool, tmp_path: Path) -> None:
    """The first start is refused; the line names the way out, and with that it starts."""
    async with guarded(clusters) as here:
        rules = tuple(rule for rule in here.reader.rules if rule.name != SCHEDULE_TOPIC)
        await here.source.put(dataclasses.replace(here.reader, rules=rules))
        worker = here.worker(tmp_path / "refused", "--sync", "topics,groups,offsets,pending")
        await refused(worker)
        assert f"topic {SCHEDULE_TOPIC}: the source's account may not read it" in worker.log
        assert "leave pending out of --sync" in worker.log
        async with here.worker(tmp_path / "without") as worker:
            await worker.caught_up(here.topic, 100)


async def test_without_the_right_to_change_topics(clusters: ClusterPool, tmp_path: Path) -> None:
    """The topic is copied all the same, a change of its settings is refused and alerts until the right is given."""
    async with guarded(clusters) as here:
        target = here.target.cluster
        await create_topic(target, here.topic, queues=2)
        await here.target.put(dataclasses.replace(here.writer, rules=without(here.writer, CREATE)))
        async with here.worker(tmp_path / "worker") as worker:
            await worker.caught_up(here.topic, 100)
            async with watching(tmp_path / "prometheus", [worker]) as prometheus:
                await until(lambda: prometheus.now("rocketmq_replicator_sync_failed_actions == 0"))
                closed = TopicConfig(name=here.topic, read_queues=2, write_queues=2, perm=READABLE)
                async with connected(here.source.cluster) as client:
                    await write_topic(client.writer("east-a"), closed)
                await fires(prometheus, "SyncFailed")
                assert here.writer.name in str(worker.ask("GET", "/connectors/route/sync")[1])
                await here.target.put(here.writer)
                await rests(prometheus, "SyncFailed")
                assert (await topics_of(target))["west-a"][here.topic].perm == READABLE


@pytest.mark.parametrize("spec", [OLD_PAIR, NEW], ids=["ACL 1.0", "ACL 2.0"])
async def test_rights_that_come_and_go(clusters: ClusterPool, tmp_path: Path, spec: ClusterSpec) -> None:
    """A topic that turns up and may not be read or written waits alone and says what is missing; with the right it
    goes on.
    """
    async with a_scene(clusters, MIDDLE, spec) as here:
        get = () if spec is OLD_PAIR else (GET,)
        may_send, may_read = (topic(here.topic, *more, SUB, *get) for more in ((PUB,), ()))
        other, groups = topic(here.other, PUB, SUB, *get), right(Kind.GROUP, "", SUB)
        everything: tuple[Rule, ...] = (may_send, other, groups)
        if spec is OLD_PAIR:
            everything = (may_send, other)
        writer = account(f"{here.name}-writer", *everything, secret="secret of who writes")
        if spec is OLD_PAIR:
            writer = dataclasses.replace(writer, group_default=frozenset({SUB}))
        await _fill(here, here.other)
        await here.target.put(dataclasses.replace(writer, rules=everything[1:]))
        environment = access("SOURCE", here.source.cluster) | signing("TARGET", writer.name, "secret of who writes")
        worker = Worker(
            here.source.cluster,
            here.target.cluster,
            tmp_path,
            *("--topics", f"{here.topic},{here.other}", "--sync", "none"),
            environment=environment,
        )
        async with worker:
            await worker.caught_up(here.other, 100)
            await _fill(here, here.topic)
            await until(lambda: worker.get("/status")["problems"], what="the new topic has a problem")
            problems = worker.get("/status")["problems"]
            assert "let the target's account read the topic" in problems[here.topic]
            assert list(problems) == [here.topic]
            assert worker.log.count("topic cannot be prepared at the target") < 5

            await here.target.put(writer)
            await worker.caught_up(here.topic, 100)

            if spec is OLD_PAIR:
                return  # 1.0 asks no right for batches
            await here.target.put(dataclasses.replace(writer, rules=(may_read, *everything[1:])))
            await until(lambda: _denied(here.target, writer, here.topic), what="brokers know of the change")
            await produce(here.source.cluster, here.topic, 100, start=100)
            await until(lambda: worker.topic(here.topic)["state"] == "WAITING")
            assert "needs PUB on the topic" in worker.topic(here.topic)["reason"]
            assert worker.topic(here.topic)["copied"] == 100
            await here.target.put(writer)
            await worker.caught_up(here.topic, 200)


@pytest.mark.parametrize(
    ("spec", "lacking", "told"),
    [
        (OLD_PAIR, {"source": SUB}, "the source's account may not read it"),
        (OLD_PAIR, {"target": CREATE}, "the target's account may not create topic"),
        (NEW, {"source": GET}, "the source's account may not read it"),
        (NEW, {"target": CREATE}, "the target's account may not create topic"),
        (NEW, {"target": PUB}, "the target's account may not send to topic"),
    ],
    ids=["reading, ACL 1.0", "making, ACL 1.0", "reading, ACL 2.0", "making, ACL 2.0", "sending, ACL 2.0"],
)
async def test_a_missing_right_is_told_before_anything_is_written(
    clusters: ClusterPool, tmp_path: Path, spec: ClusterSpec, lacking: dict[str, str], told: str
) -> None:
    """At the first start: neither cluster has a topic more than before; the line names the topic and the side."""
    sides = (spec, MIDDLE) if "source" in lacking else (MIDDLE, spec)
    async with a_scene(clusters, *sides) as here:
        await create_topic(here.source.cluster, here.topic, queues=2)
        environment: dict[str, str] = {}
        for name, side in (("source", here.source), ("target", here.target)):
            who = _may_copy(here, side, name, lacking.get(name, ""))
            await side.put(who)
            await until(partial(_signs_in, side, who), what="brokers know the account")
            environment |= signing(name.upper(), who.name, who.secret.reveal())
        before = [await topics_of(side.cluster) for side in (here.source, here.target)]
        worker = Worker(
            *(here.source.cluster, here.target.cluster, tmp_path, "--topics", here.topic), environment=environment
        )
        line = await refused(worker)
        assert f"topic {here.topic}: {told}" in line
        assert "docs/ACL.md" in worker.log
        assert [await topics_of(side.cluster) for side in (here.source, here.target)] == before


def _may_copy(here: Scene, side: Side, name: str, lacking: str) -> Account:
    """Who may do all that copying needs but what is `lacking`."""
    secret = f"secret of the {name}"
    if side.dialect is Dialect.ACL1:
        who = account(f"{here.name}-{name}", topic(here.topic, *({PUB, SUB} - {lacking})), secret=secret)
        return dataclasses.replace(who, group_default=frozenset({SUB}), admin=lacking == "")
    rights = frozenset({PUB, SUB, GET, CREATE}) - {lacking}
    return account(
        f"{here.name}-{name}",
        right(Kind.TOPIC, "replicator_sys_", PUB, SUB, GET, CREATE),
        right(Kind.TOPIC, here.topic, *rights),
        right(Kind.GROUP, "", SUB),
        secret=secret,
    )


async def _signs_in(side: Side, who: Account) -> bool:
    """Whether every broker knows the account."""
    client = side.connect(Credentials(who.name, who.secret.reveal()))
    try:
        for broker in (await client.refresh()).brokers:
            await read_settings(client.master(broker))
    except BrokerRefused:
        return False
    finally:
        await client.close()
    return True


async def _fill(here: Scene, name: str) -> None:
    await create_topic(here.target.cluster, name, queues=2)
    await create_topic(here.source.cluster, name, queues=2)
    await produce(here.source.cluster, name, 100)


async def _denied(side: Side, who: Account, name: str) -> bool:
    return not any(await side.takes(who, name))


@pytest.mark.parametrize("spec", [OLD_PAIR, NEW], ids=["ACL 1.0", "ACL 2.0"])
async def test_a_wrong_secret_is_not_called_a_missing_right(
    clusters: ClusterPool, tmp_path: Path, spec: ClusterSpec
) -> None:
    """The first start says which setting is wrong; an unknown account is told the same."""
    async with a_scene(clusters, MIDDLE, spec) as here:
        target = here.target.cluster
        for name, secret in ((target.access_key, "not the secret"), ("nobody-of-this-name", "anything")):
            environment = access("SOURCE", here.source.cluster) | signing("TARGET", name, secret)
            worker = Worker(here.source.cluster, target, tmp_path / name, environment=environment)
            line = await refused(worker)
            assert "the access key or the secret is wrong" in line
            assert "target.secret_key" in line
            assert "rights" not in line


@pytest.mark.parametrize("spec", [OLD_PAIR, NEW], ids=["ACL 1.0", "ACL 2.0"])
async def test_a_secret_that_is_changed_while_it_copies_is_named(
    clusters: ClusterPool, tmp_path: Path, spec: ClusterSpec
) -> None:
    """Its queues wait, and go on once the broker has the secret again."""
    async with a_scene(clusters, MIDDLE, spec) as here:
        await _fill(here, here.topic)
        who = _may_copy(here, here.target, "target", "")
        await here.target.put(who)
        await until(partial(_signs_in, here.target, who), what="brokers know the account")
        environment = access("SOURCE", here.source.cluster) | signing("TARGET", who.name, who.secret.reveal())
        given = (here.source.cluster, here.target.cluster, tmp_path, "--topics", here.topic, "--sync", "none")
        async with Worker(*given, environment=environment) as worker:
            await worker.caught_up(here.topic, 100)
            other = dataclasses.replace(who, secret=account(who.name, secret="another secret").secret)
            await here.target.put(other)
            await until(partial(_signs_in, here.target, other), what="brokers know the other secret")
            await produce(here.source.cluster, here.topic, 100, start=100)
            await until(lambda: worker.topic(here.topic)["state"] == "WAITING")
            assert "the access key or the secret is wrong" in worker.topic(here.topic)["reason"]
            assert "target.secret_key" in worker.topic(here.topic)["reason"]
            await here.target.put(who)
            await worker.caught_up(here.topic, 200)
