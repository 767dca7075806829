"""What can be done to workers by writing to the system topics: with a secret nothing, else nothing that lasts."""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.error
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from replicator.client.security import Credentials
from replicator.group.membership import Generation
from replicator.group.signature import Signer
from replicator.sandbox import Cluster
from replicator.settings.secret_file import write_secret
from tests.support.accounts import account
from tests.support.accounts import topic as topic_rule
from tests.support.acl_scene import NEW, OLD, a_scene
from tests.support.clusters import ClusterPool
from tests.support.forger import CONTROL, SINK, SOURCE, SYSTEM, Forger, recorded, records, told_positions
from tests.support.group import EAST, WEST, share, workers_of
from tests.support.guarded import access
from tests.support.traffic import connected, create_topic, produce
from tests.support.worker import Worker, until

pytestmark = pytest.mark.timeout(300)

BIG = 10**9
#: Seconds that a worker stands still: more than two session timeouts.
_LONG = 4.0


@asynccontextmanager
async def forging(source: Cluster, signer: Signer | None = None) -> AsyncIterator[Forger]:
    async with connected(source) as client:
        yield Forger(client, min(client.brokers()), signer)


def ignored(worker: Worker) -> dict[str, int]:
    found: dict[str, int] = worker.get("/status")["control_messages_ignored"]
    return found


#: None can be compiled, or matched in time, by what compiles and matches others.
PATTERNS = (
    "(",
    "a{99999999999999999999}",
    "(" * 3000 + ")" * 3000,
    "((a{1000}){1000}){1000}",
    "([a-z0-9-]|[a-z0-9-])+[.]",
)


def connector(pattern: str) -> dict[str, Any]:
    """A record of one that selects topics by `pattern`."""
    return {"config": {"topics": [pattern]}, "state": "RUNNING", "origin": "rest", "epoch": 0}


def poisons(group: str, topic: str, worker: str) -> list[tuple[str, bytes]]:
    """Each of these once ended a worker or its reader, at once or at its next start."""

    def beat(name: str, **said: Any) -> bytes:
        heartbeat = {
            "incarnation": "evil",
            "sequence": 1,
            "stage": "online",
            "generation": [0, ""],
            "releasing": [],
            "info": {},
        }
        wire = {"version": 1, "group": group, "worker": name, "heartbeat": heartbeat | said}
        return json.dumps(wire).encode()

    queue = f"route/{topic}/east-a/0"
    odd = [
        ("assignment", "", [BIG, "evil"], {}),
        ("assignment", "", [2**64 - 1, "evil"], {"members": ["evil"], "owners": {}}),
        ("position", "x/y/z/0", [2**64 - 1, "evil"], {"position": 1, "start": 0}),
        ("offset", queue, [BIG, "evil"], {"x": 1}),
        ("task", f"route/{topic}", [BIG, "evil"], {"queues": 5}),
        ("connector", "route", [BIG, "evil"], [1, 2]),
        *(("connector", f"evil-{number}", [1, "evil"], connector(each)) for number, each in enumerate(PATTERNS)),
        ("status", "evil", [BIG, "evil"], 5),
        ("status", worker, [2**63, "evil"], {"topics": [], "problems": {}}),
        ("sync", "route/status", [BIG, "evil"], 5),
        ("sync", "route/audit//", [BIG, "evil"], 5),
        ("position", queue, [2**62, "evil"], {"position": 10**6, "start": 0}),
    ]
    info = {"rest": "javascript:alert(1)", "tasks": 5, "view": 7, "version": {"a": 1}}
    return [
        *((CONTROL, records(group, record)) for record in odd),
        (SOURCE, beat("zz\x1b[2J", info=info)),
        (SINK, beat("zz", info={"rest": 5, "tasks": "x", "view": 7})),
        (SOURCE, beat("zz", generation=[2**63, ""])),
        (SOURCE, json.dumps({"version": 1, "group": f"{group}/jobs", "worker": "w", "heartbeat": {}}).encode()),
        *(
            (
                SOURCE,
                beat("job", info={"topics": [each]}).replace(f'"{group}"'.encode(), f'"{group}/jobs"'.encode()),
            )
            for each in PATTERNS
        ),
    ]


async def test_no_record_ends_or_silences_a_worker_that_believes_all(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Nor its next start; what does not fit is counted, and reading goes on behind it."""
    source, target = await clusters.pair(EAST, WEST)
    topic, group = topic_name("t"), topic_name("g")
    await create_topic(source, topic, queues=2)
    flags = ("--topics", topic, "--worker-id", "w0", "--session-timeout", "8")
    worker = Worker(source, target, tmp_path / "w0", *flags, group=group)
    async with worker:
        await until(lambda: worker.running)
        assert "the system topics are not signed" in worker.log
        sent = poisons(group, topic, "w0")
        async with forging(source) as forger:
            for system, body in sent:
                await forger.write(system, [body])
        await until(lambda: worker.metric("shared_state_records_skipped_total") >= 11, what="all were read")
        for page in ("/status", "/getClusterInfo", "/metrics", "/connectors/list", "/connectors/route/sync"):
            assert worker.get(page)
        await produce(source, topic, 100)
        await worker.caught_up(topic, 100)
        async with Worker(
            source, target, tmp_path / "w1", "--topics", topic, "--worker-id", "w1", group=group
        ) as new:
            await until(lambda: len(worker.get("/getClusterInfo")["body"]["workers"]) == 2, what="it still reads")
            await until(lambda: new.get("/health/ready")["ready"])
    await worker.start()
    await until(lambda: worker.running, what="it starts again")
    await produce(source, topic, 100, start=100)
    await worker.caught_up(topic, 100)
    assert "Traceback" not in worker.log
    await worker.kill()


async def test_a_fake_worker_with_the_least_name_makes_no_new_worker_ready(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """It leads and assigns nothing: without a secret that cannot be told from a real one, but it is said."""
    source, target = await clusters.pair(EAST, WEST)
    topic, group = topic_name("t"), topic_name("g")
    await create_topic(source, topic, queues=1)
    worker = Worker(source, target, tmp_path, "--topics", topic, "--worker-id", "w0", group=group)
    async with forging(source) as forger:
        beating = asyncio.create_task(_haunt(forger, group, "aaa"))
        try:
            async with worker:

                def reason() -> str:
                    status, page = _ready(worker)
                    assert status == 503
                    return str(page["reasons"].get("worker", ""))

                await until(lambda: "aaa leads the group and has not assigned any" in reason())
        finally:
            beating.cancel()


async def _haunt(forger: Forger, group: str, worker: str) -> None:
    for sequence in range(1, 1000):
        await forger.beat(group, worker, sequence, generation=Generation(0, ""))
        await asyncio.sleep(0.5)


def _ready(worker: Worker) -> tuple[int, dict[str, Any]]:
    try:
        return 200, worker.get("/health/ready")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


async def test_a_signed_group_obeys_its_own_workers_alone(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Neither unsigned nor wrongly signed nor recorded messages change anything; they are counted by reason.

    The heartbeats of a killed worker, written again and again, do not keep its tasks from being taken over.
    """
    source, target = await clusters.pair(EAST, WEST)
    topics, group = [topic_name(f"{i}") for i in range(2)], topic_name("g")
    for topic in topics:
        await create_topic(source, topic, queues=1)
    write_secret(tmp_path / "secret")
    flags = ("--topics", topic_name(".*"), "--worker-group-secret-file", str(tmp_path / "secret"))
    workers = [
        Worker(source, target, tmp_path / name, "--worker-id", name, *flags, group=group) for name in ("w0", "w1")
    ]
    try:
        for worker in workers:
            await worker.start()
        await until(partial(share, workers, 2))
        await until(partial(told_positions, source, group))
        deletion = records(group, ("connector", "route", [BIG, "evil"], None))
        for signer in (None, Signer("x" * 32)):
            async with forging(source, signer) as forger:
                await forger.say(CONTROL, deletion, group=group)
                for sequence in (1, 2, 3):
                    await forger.beat(group, "aaa", sequence)
                    await forger.beat(group, "w0", 10**6 + sequence)
        for worker in workers:
            await until(partial(_counted, worker, {"unsigned": 13, "wrong_signature": 13}), what="all are counted")
        async with forging(source) as forger:
            tape = await recorded(source)
            for system in SYSTEM:
                await forger.write(system, tape[system][-500:])
            await until(lambda: ignored(workers[1]).get("replayed", 0) > 5)
            await until(partial(share, workers, 2), seconds=10)
            names = {each["worker_id"] for each in workers[0].get("/getClusterInfo")["body"]["workers"]}
            assert names == {"w0", "w1"}
            await workers[0].kill()
            replaying = asyncio.create_task(_replay(source, forger))
            try:
                await until(partial(share, workers[1:], 2), seconds=15, what="the other has both")
            finally:
                replaying.cancel()
        for topic in topics:
            await produce(source, topic, 50)
            await workers[1].caught_up(topic, 50)
        await workers[0].start()
        await until(partial(share, workers, 2), what="it comes back as another process")
        secret = (tmp_path / "secret").read_text().strip()
        assert all(secret not in worker.log + worker.get("/metrics") for worker in workers)
        assert all("Traceback" not in worker.log for worker in workers)
    finally:
        for worker in workers:
            await worker.kill()


async def test_a_signed_worker_comes_back_after_a_long_pause(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Its first heartbeats afterwards name an echo that is too old for others, and it is to believe them itself."""
    source, target = await clusters.pair(EAST, WEST)
    topics = [topic_name(f"{i}") for i in range(4)]
    for topic in topics:
        await create_topic(source, topic, queues=1)
    write_secret(tmp_path / "secret")
    flags = ("--topics", topic_name(".*"), "--worker-group-secret-file", str(tmp_path / "secret"))
    quick = ("--session-timeout", "1.5", "--heartbeat-interval", "0.3")
    async with workers_of(source, target, tmp_path, 2, *flags, *quick) as workers:
        await until(partial(share, workers, 4))
        workers[0].signal(signal.SIGSTOP)
        await until(partial(share, workers[1:], 4), what="the other has all")
        await asyncio.sleep(_LONG)  # how long it stands still is what this is about
        workers[0].signal(signal.SIGCONT)
        await until(lambda: workers[0].running and all(share(workers, 4) or [()]), what="both share again")


def _counted(worker: Worker, expected: dict[str, int]) -> bool:
    return ignored(worker) == expected


def _copied(workers: Iterable[Worker], topic: str, count: int) -> bool:
    found = [worker.topic(topic) for worker in workers]
    there = [each for each in found if each]
    return sum(each["copied_in_all"] for each in there) >= count and not any(each["lag_messages"] for each in there)


async def _replay(source: Cluster, forger: Forger) -> None:
    """Writes the newest heartbeats once more, as fast as it can."""
    tape = await recorded(source)
    while True:
        for system in (SOURCE, SINK):
            await forger.write(system, tape[system][-100:])
        await asyncio.sleep(0.2)


async def test_a_secret_is_introduced_one_worker_after_the_other(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """In two rounds: first they sign and believe both, then only what is signed. Nothing is copied twice."""
    source, target = await clusters.pair(EAST, WEST)
    topics, group = [topic_name(f"{i}") for i in range(2)], topic_name("g")
    for topic in topics:
        await create_topic(source, topic, queues=1)
    write_secret(tmp_path / "secret")
    plain = ("--topics", topic_name(".*"))
    signing = (*plain, "--worker-group-secret-file", str(tmp_path / "secret"))
    both = (*signing, "--worker-group-accept-unsigned")
    workers: dict[str, Worker] = {}
    try:
        for flags in (plain, both, signing):
            for name in ("w0", "w1"):
                if name in workers:
                    assert await workers[name].drain() == 0
                workers[name] = Worker(source, target, tmp_path / name, "--worker-id", name, *flags, group=group)
                await workers[name].start()
                await until(partial(share, [*workers.values()], 2), what=f"{name} shares with {flags[2:]}")
                for topic in topics:
                    await produce(source, topic, 20)
        for topic in topics:
            await until(partial(_copied, workers.values(), topic, 120))
            assert sum(w.topic(topic).get("duplicates", 0) for w in workers.values()) == 0
        assert "signatures of control messages are not verified" in workers["w1"].log
    finally:
        for worker in workers.values():
            await worker.kill()


async def test_an_account_without_rights_gets_none_by_way_of_the_worker(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Brokers of 4.9 ask no right of batches: a forged record arrives, and the worker neither writes nor syncs."""
    async with a_scene(clusters, OLD, NEW) as scene:
        denied = account(scene.name, topic_rule(scene.topic), secret="a secret of nobody")
        await scene.source.put(denied)
        await scene.source.create(scene.topic)
        group, loot = topic_name("g"), tmp_path / "loot" / "plain_acl.yml"
        loot.parent.mkdir()
        write_secret(tmp_path / "secret")
        flags = ("--topics", scene.topic, "--worker-group-secret-file", str(tmp_path / "secret"))
        environment = access("SOURCE", scene.source.cluster) | access("TARGET", scene.target.cluster)
        sink = {"connector.class": "file-sink", "filename": str(loot), "connect.topicnames": [scene.topic]}
        accounts = {"topics": ["none"], "sync": ["acl"], "acl": {"admins": True, "source_dir": str(loot.parent)}}
        forged = [
            ("connector", name, [BIG, "evil"], {"config": config, "state": "RUNNING", "origin": "rest", "epoch": 0})
            for name, config in (("sink", sink), ("accounts", accounts))
        ]
        async with Worker(
            scene.source.cluster, scene.target.cluster, tmp_path / "w", *flags, group=group, environment=environment
        ) as worker:
            await until(lambda: worker.get("/health/ready")["ready"])
            client = scene.source.connect(Credentials(denied.name, denied.secret.reveal()))
            try:
                assert not await scene.source.lets_send(denied, CONTROL)
                await client.refresh()
                await Forger(client, min(client.brokers())).write(CONTROL, [records(group, *forged)])
            finally:
                await client.close()
            await until(lambda: ignored(worker) == {"unsigned": 1})
            assert worker.get("/connectors/list")["body"].keys() == {"route"}
            status, told = worker.ask("POST", "/connectors/sink", sink)
            assert status == 400
            assert f"filename = {str(loot)!r}: file connectors are off at this worker" in told["errors"][0]
            status, told = worker.ask("POST", "/connectors/accounts", accounts)
            assert status == 400
            assert [line.partition(" ")[0] for line in told["errors"]] == ["acl.admins", "acl.source_dir"]
        assert not loot.exists()
        assert [*loot.parent.iterdir()] == []
