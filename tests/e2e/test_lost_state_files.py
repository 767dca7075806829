"""State files: whole or not there, readable by a person, and never needed to be right."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.sandbox import ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.traffic import create_topic, judge, produce
from tests.support.worker import Worker

pytestmark = pytest.mark.side_by_side("wide")

SOURCE = ClusterSpec(name="wide", brokers=2)
TARGET = ClusterSpec(name="west", version="5.3.3")
FILES = ("connectorConfig.json", "taskConfig.json", "position.json", "offset.json")


def _damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "bit flipped":
        at = data.index(b'"content"') + 20
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    else:
        path.unlink()


@pytest.mark.parametrize("how", ["truncated", "empty", "bit flipped", "gone"])
async def test_damaged_files_are_set_aside_and_rebuilt_from_the_target(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], how: str
) -> None:
    """All four at once, of a worker without a group; queues that had moved by then keep their places."""
    source, target = await clusters.pair(SOURCE, TARGET)
    topic = topic_name("t").replace("[", "-").replace("]", "-").replace(" ", "-")
    await create_topic(source, topic, queues=1)
    await produce(source, topic, 200)
    async with Worker(source, target, tmp_path, "--topics", topic, "--standalone") as worker:
        await worker.caught_up(topic, 200)
        await create_topic(source, topic, queues=2)
        await produce(source, topic, 200, start=200)
        await worker.caught_up(topic, 400)
        before = {(q["source"]["broker"], q["source"]["queue"]): q["target"] for q in worker.queues(topic)}
        assert await worker.drain() == 0
    for name in FILES:
        assert json.loads((worker.store / name).read_text())["version"] == 1
        _damage(worker.store / name, how)
    await produce(source, topic, 200, start=400)
    async with Worker(source, target, tmp_path, "--topics", topic, "--standalone") as worker:
        await worker.caught_up(topic, 200)
        after = {(q["source"]["broker"], q["source"]["queue"]): q["target"] for q in worker.queues(topic)}
        assert after == before
        assert worker.log.count("state file set aside") == (0 if how == "gone" else 4)
        assert "queue map found in the target" in worker.log
    verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()
    assert verdict.copies == 600


async def test_a_file_of_a_newer_version_is_refused(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Guessing what it means could lose messages."""
    source, target = await clusters.pair(SOURCE, TARGET)
    store = tmp_path / "store"
    store.mkdir()
    (store / "offset.json").write_text('{"version": 2, "sha256": "", "content": {}}')
    worker = Worker(source, target, tmp_path, "--topics", topic_name("t"))
    await worker.start(ready=False)
    assert await worker.wait() == 3
    assert "offset.json has version 2, this program knows up to 1" in worker.log
