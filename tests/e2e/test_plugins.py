"""Connector plugins on real brokers: a file's lines to a topic, over a route, and back into a file."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.command import run
from tests.support.guide import Guide
from tests.support.packages import PLUGINS_PAGE, example, install
from tests.support.traffic import create_topic, produce, raw_topic
from tests.support.worker import Worker, until

pytestmark = pytest.mark.timeout(400)

EAST, WEST = ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.3.3")
ALIAS = "org.apache.rocketmq.connect.file.FileSourceConnector"


@asynccontextmanager
async def _group(
    directory: Path, sides: tuple[Cluster, Cluster], group: str, topics: str
) -> AsyncIterator[list[Worker]]:
    """Two workers of one group, which agree already."""
    flags = ("--topics", topics, "--worker-group", group, "--file-connector-dir", str(directory / "files"))
    workers = [
        Worker(*sides, directory / f"{group}-{name}", "--worker-id", name, *flags) for name in ("one", "two")
    ]
    try:
        for worker in workers:
            await worker.start()
        for worker in workers:
            await until(partial(_settled, worker), what="both take part")
        yield workers
    finally:
        for worker in workers:
            await worker.kill()


def _settled(worker: Worker) -> bool:
    found = worker.ask("GET", "/getClusterInfo")[1]
    return not found["rebalancing"] and len(found["workers"]) == 2


async def _create(worker: Worker, name: str, **config: str) -> None:
    values = {key.replace("_", "."): value for key, value in config.items()}

    def created() -> bool:
        status, told = worker.ask("POST", f"/connectors/{name}", values)
        assert status in (200, 201, 409), told
        return status != 409

    await until(created, what="tasks do not change hands")


def _owner(workers: Sequence[Worker], connector: str) -> Worker | None:
    """The worker on which the connector's task runs."""
    for worker in workers:
        if any(t["connector"] == connector and t["state"] == "RUNNING" for t in worker.get("/status")["topics"]):
            return worker
    return None


def _first_seen(lines: Sequence[bytes], expected: Sequence[bytes]) -> list[bytes]:
    """The expected ones among `lines`, each where it came first."""
    return list(dict.fromkeys(line for line in lines if line in set(expected)))


def _saved(workers: Sequence[Worker], byte: int, messages: int) -> bool:
    """Whether each worker has on disk that the source has read up to `byte`, and the sink so many messages."""
    for worker in workers:
        held = json.loads((worker.store / "position.json").read_text())["content"]["position"]
        source, sink = (held[f"{name}/0"]["value"]["position"] for name in ("fileSource", "fileSink"))
        if source["offset"] != byte or sum(sink.values()) != messages:
            return False
    return True


def _times(file: Path, lines: Sequence[bytes]) -> set[int]:
    """How often each of `lines` stands in the file."""
    counts = Counter(file.read_bytes().splitlines())
    return {counts[line] for line in lines}


async def test_lines_survive_the_death_of_their_owner(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """File to east, east to west by a route, west to a file; the owner of either end is killed on the way.

    Every line arrives, in order, and what was saved before does not come again.
    """
    east, west = await clusters.pair(EAST, WEST)
    topic = topic_name("lines")
    files = tmp_path / "files"
    files.mkdir()
    read, written = files / "in", files / "out"
    lines = [b"line %06d" % i for i in range(12_000)]
    chunks = [b"\n".join(lines[i : i + 4000]) + b"\n" for i in (0, 4000, 8000)]
    read.write_bytes(chunks[0][:-1])  # the last line is not complete yet
    async with (
        _group(tmp_path, (west, east), topic_name("back"), topic_name("none")) as back,
        _group(tmp_path, (east, west), topic_name("forth"), topic) as forth,
    ):
        await _create(back[0], "fileSource", connector_class=ALIAS, filename=str(read), connect_topicname=topic)
        await _create(
            back[1], "fileSink", connector_class="file-sink", filename=str(written), connect_topicnames=topic
        )

        async def out(count: int) -> bool:
            found = written.read_bytes().splitlines() if written.exists() else []
            return _first_seen(found, lines[:count]) == lines[:count]

        await until(partial(out, 3999), what="all complete lines are out")
        assert lines[3999] not in written.read_bytes().splitlines()
        await until(partial(_saved, back, len(chunks[0]) - len(lines[3999]) - 1, 3999), what="both know")
        with read.open("ab") as file:
            file.write(b"\n" + chunks[1])
        for connector in ("fileSource", "fileSink"):
            owner = await until(lambda connector=connector: _owner(back, connector))  # type: ignore[misc]
            await owner.kill()
            (other,) = (worker for worker in back if worker is not owner)
            await until(partial(_owner, [other], connector), what="the other goes on")
            await owner.start()
            await until(partial(_settled, owner), what="it takes part again")
        await until(partial(out, 8000), what="all lines are out after both deaths")
        status, told = back[0].ask("GET", "/connectors/fileSink/status")
        assert (status, told["type"], [task["id"] for task in told["tasks"]]) == (200, "SINK", ["0"])
        await until(lambda: back[0].ask("GET", "/connectors/fileSource/tasks/0/status")[1]["state"] == "RUNNING")
        with read.open("ab") as file:
            file.write(chunks[2])
        drained = await until(lambda: _owner(back, "fileSource"))
        assert await drained.drain() == 0
        await until(partial(out, 12_000), what="all lines are out after a hand-over")
        (left,) = (worker for worker in back if worker is not drained)
        await until(lambda: left.topic(topic)["lag_messages"] == 0)
        assert f'topic="{topic}"' in left.get("/metrics")
        assert sum(worker.topic(topic).get("duplicates", 0) for worker in forth) == 0
    assert _times(written, lines[:3999]) == {1}


async def test_a_truncated_file_is_told_and_not_read_on(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """The reason stands in the status; mistakes of a configuration come all at once."""
    east, west = await clusters.pair(EAST, WEST)
    await create_topic(east, topic_name("t"), queues=1)
    read = tmp_path / "files" / "in"
    read.parent.mkdir()
    read.write_bytes(b"one\n\ntwo\n")
    flags = ("--topics", topic_name("t"), "--standalone", "--file-connector-dir", str(read.parent))
    async with Worker(east, west, tmp_path, *flags) as worker:
        await until(lambda: worker.running)
        status, refused = worker.ask("POST", "/connectors/f", {"connector.class": "file-source", "filenam": "x"})
        assert status == 400
        assert refused["errors"] == [
            "filename is missing: it has no default",
            "connect.topicname is missing: it has no default",
            "filenam is not a setting: did you mean filename?",
        ]
        names = {plugin["class"]: plugin["type"] for plugin in worker.ask("GET", "/plugin/list/connectors")[1]}
        assert (names["routing"], names["file-source"], names["file-sink"]) == ("ROUTE", "SOURCE", "SINK")
        keys = [field["name"] for field in worker.ask("GET", "/plugin/config?name=file-sink")[1]]
        assert keys == ["filename", "connect.topicnames"]
        target = topic_name("lines")
        await _create(worker, "f", connector_class="file-source", filename=str(read), connect_topicname=target)
        await until(lambda: worker.has_copied(target, 3))
        found = await raw_topic(west, target)
        assert [[m.body[4:] for m in queue] for queue in found.values()] == [[b"one", b"", b"two"]]
        read.write_bytes(b"new\n")
        await until(lambda: worker.topic(target)["state"] == "FAILED")
        assert (
            "was truncated or replaced: it was read up to byte 9, and ends at byte 4"
            in (worker.topic(target)["reason"])
        )
        read.write_bytes(b"one\n\ntwo\nthree\n")
        await until(lambda: worker.has_copied(target, 4), what="it goes on where the file is put back")


async def test_what_the_page_says(clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]) -> None:
    """Its connectors are created by its commands, and its example copies as it is printed."""
    east, west = await clusters.pair(EAST, WEST)
    files, page = tmp_path / "files", Guide(PLUGINS_PAGE)
    files.mkdir()
    (files / "in").write_bytes(b"one\ntwo\n")
    names = {name: topic_name(name) for name in ("fileTopic", "orders", "payments", "heartbeats")}
    for name in ("orders", "payments"):
        await create_topic(east, names[name], queues=1)
        await produce(east, names[name], 3)
    install(tmp_path / "site", "my_package", example(PLUGINS_PAGE), "connectors", {"heartbeat": "Heartbeat"})
    flags = ("--topics", topic_name("none"), "--standalone", "--file-connector-dir", str(files))
    async with Worker(east, west, tmp_path, *flags, environment={"PYTHONPATH": str(tmp_path / "site")}) as worker:
        await until(lambda: worker.get("/health/ready"))
        for line in (page.take("replicator connectors create"), page.take("replicator connectors create")):
            for name, here in {"/data/files": str(files), **names}.items():
                line = line.replace(name, here)
            await run(worker, *shlex.split(line)[1:])
        await _create(worker, "heartbeat", connector_class="heartbeat", topic=names["heartbeats"])
        await until(lambda: worker.has_copied(names["heartbeats"], 2))
        (beats,) = [queue for queue in (await raw_topic(west, names["heartbeats"])).values() if queue]
        assert [m.body[4:] for m in beats[:2]] == [b"1", b"2"]
        await until(lambda: worker.has_copied(names["fileTopic"], 2))
        await until(lambda: len((files / "out").read_bytes().splitlines()) == 6, what="both topics are in the file")
    assert [line for line in page.left if line.startswith("replicator")] == []
