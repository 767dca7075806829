"""A plugin's connector in one worker: its tasks begin where the shared state says, and say how far they are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.client.topics import TopicConfig
from replicator.connector.plugin.connector import PluginRoute
from replicator.plugins import NoConfig, Polled, Record, SourceConnector, SourceTask
from replicator.plugins.limits import ConnectorLimits
from replicator.plugins.registry import PluginConfig, configure
from replicator.routing.state import Phase
from replicator.state.connector_configs import Connectors
from replicator.state.record import Kind
from replicator.state.store import Store
from tests.support.worker import until

TOPIC = TopicConfig(name="t", read_queues=1, write_queues=1)

LIMITS = ConnectorLimits(file_dir=Path("/"))


class _Odd(SourceTask):
    """Its position cannot be written."""

    def __init__(self, position: Any) -> None:
        self._position = position

    async def start(self, position: Any) -> None:
        assert position is None

    async def poll(self) -> list[Polled]:
        return [Polled(Record("t", b"body"), self._position)]

    async def stop(self) -> None:
        """Nothing was taken."""


class _OddConnector(SourceConnector[NoConfig]):
    config = NoConfig

    def __init__(self, position: Any) -> None:
        self._position = position

    def tasks(self, config: NoConfig) -> dict[str, list[str]]:
        return {"0": ["t"]}

    def task(self, config: NoConfig, task: str) -> SourceTask:
        return _Odd(self._position)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "store")
    made.state.worker = "w"
    yield made
    made.close()


def _context(store: Store, topics: Mapping[str, Mapping[str, TopicConfig]]) -> Any:
    side = SimpleNamespace(topics=topics)
    return SimpleNamespace(source=side, target=side, store=store, may_send=lambda: True, drain_timeout=5.0)


async def test_a_task_goes_on_where_the_last_owner_was(store: Store, tmp_path: Path) -> None:
    values = {"filename": str(tmp_path / "none"), "connect.topicname": "t"}
    connectors = Connectors(store, LIMITS)
    connectors.create("file", {"connector.class": "file-source", **values})
    store.put(Kind.POSITION, "file/0", {"position": {"offset": 7, "crc": 1}})
    route = PluginRoute("file", configure("file-source", values, LIMITS), _context(store, {"b": {"t": TOPIC}}))
    assert (sorted(route.tasks), route.knows("file/0"), route.lacks("file/0")) == (["file/0"], True, True)
    async with asyncio.TaskGroup() as group:
        route.start(route.begin(["file/0"]), [], group)
        assert not route.phases(), "a task that is ours no more is not started"
        route.start(route.begin(["file/0"]), ["file/0"], group)
        assert not route.begin(["file/0"])
        await until(lambda: route.phases() == {"file/0": {Phase.WAITING}}, seconds=10)
        assert "No such file" in route.states[0].reason
        store.put(Kind.POSITION, "file/0", None)
        await route.keep(ended=False)
        assert store.state.get(Kind.POSITION, "file/0") == {"position": {"offset": 7, "crc": 1}}
        connectors.delete("file")
        await route.stop(["file/0"])
    assert store.state.get(Kind.POSITION, "file/0") is None, "a deleted connector leaves nothing"
    assert not route.phases()


def test_what_a_task_needs_must_be_there(store: Store) -> None:
    topics: dict[str, dict[str, TopicConfig]] = {"b": {}}
    source = configure("file-source", {"filename": "/f", "connect.topicname": "t"}, LIMITS)
    assert not PluginRoute("file", source, _context(store, topics)).knows("file/0")
    made = configure("file-sink", {"filename": "/f", "connect.topicnames": "t"}, LIMITS)
    sink = PluginRoute("file", made, _context(store, topics))
    sink.plan()
    assert sink.knows("file/0"), "a sink waits for its topics while it runs"
    assert sink.problems == {"t": "the source does not have this topic now"}
    topics["b"]["t"] = TOPIC
    sink.plan()
    assert not sink.problems


@pytest.mark.parametrize("position", [{"file": "caf\udce9"}, {"at": object()}, [1]])
async def test_a_position_that_cannot_be_written_fails_its_task_alone(store: Store, position: Any) -> None:
    """Nothing is sent that would be sent again after each restart, and all other records are written."""
    Connectors(store).create("route", {"topics": "orders"})
    settings = PluginConfig("odd", NoConfig(), _OddConnector(position), {"0": ["t"]})
    context = _context(store, {"b": {"t": TOPIC}})
    context.message_limit = lambda _: 1024
    route = PluginRoute("route", settings, context)
    async with asyncio.TaskGroup() as group:
        route.start(route.begin(["route/0"]), ["route/0"], group)
        await until(lambda: route.phases() == {"route/0": {Phase.FAILED}}, seconds=10)
        assert "position cannot be kept" in route.states[0].reason
        await route.keep(ended=False)
        store.put(Kind.CLUSTERS, "", {})
        await route.stop(["route/0"])
    assert store.state.get(Kind.POSITION, "route/0") is None
    store.write(store.snapshot())
