"""A route's metadata task between two clusters that are played."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from acl_sync import AclOptions
from replicator.client.offsets import OffsetTable
from replicator.connector.context import ConnectorContext
from replicator.connector.sync.task import SyncTask
from replicator.connector.topics import RouteTopics
from replicator.errors import Unreachable
from replicator.metadata import group_positions, syncer
from replicator.metadata.action import Action, WriteGroup, WriteTopic
from replicator.metadata.pop_log import PopLog
from replicator.observe.audit import Audit
from replicator.routing.options import Identity
from replicator.routing.selector import TopicSelector
from replicator.settings import RouteSettings
from replicator.state.record_types import fit
from replicator.state.store import Store
from tests.metadata.test_syncer import Side, read_groups

KINDS = ("topics", "groups", "offsets")


async def read_offsets(broker: Any, *, known: OffsetTable | None) -> OffsetTable:
    if broker.name in broker.side.away:
        raise Unreachable(broker.name, "away")
    return OffsetTable({}, b"")


async def write(target: Any, action: Action) -> None:
    if isinstance(action.write, WriteGroup):
        target.groups[action.broker][action.key] = action.write.config
        return
    assert isinstance(action.write, WriteTopic)
    target.topics[action.broker][action.key] = action.write.config


class Setup:
    """A route without topics from broker `a` to brokers `x` and `y`; `task` is its metadata task."""

    def __init__(self, store: Store) -> None:
        self.source, self.target = Side("a"), Side("x", "y")
        self.audit = Audit(store.directory / "audit.jsonl")
        self._audit_file = store.directory / "audit.jsonl"
        self.told: list[list[tuple[str, Any]]] = []
        self.hears = True
        self.context: Any = SimpleNamespace(
            source=SimpleNamespace(cluster=self.source, topics={}),
            target=SimpleNamespace(cluster=self.target),
            settle_timeout=1.0,
            metadata_refresh_interval=30.0,
            identity=Identity("s", "t"),
            store=store,
            may_send=lambda: True,
            audit=self.audit,
            publish=self.publish,
            accounts=AclOptions(),
        )
        selector = TopicSelector.of([".*"], [])
        self.topics: Any = SimpleNamespace(
            name="route", plans=[], of_users=[], parked={}, selector=selector, is_copied=selector.selects
        )
        self.task = self.syncing(*KINDS)
        self.route: Any = SimpleNamespace(
            parking=SimpleNamespace(options=lambda options: options),
            settings=RouteSettings(),
            keep=AsyncMock(),
            topics=self.topics,
            problems={},
            sync=self.task,
            name="route",
        )

    @property
    def audited(self) -> list[dict[str, Any]]:
        """What is in the audit log."""
        return [json.loads(line) for line in self._audit_file.read_text().splitlines()]

    def syncing(self, *kinds: Any) -> SyncTask:
        """A task that syncs these."""
        return SyncTask(
            RouteSettings(sync=[*kinds]), cast("ConnectorContext", self.context), cast("RouteTopics", self.topics)
        )

    async def publish(self) -> bool:
        """Keeps what the group is told, once at a time."""
        self.told.append([(each.key, each.value) for each in self.context.store.take_unpublished()])
        return self.hears


async def nobody_pops(_log: PopLog, _consumed: object) -> dict[Any, Any]:
    """What POP consumers hold: nothing."""
    return {}


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    for name, fake in (("read_groups", read_groups), ("apply", write)):
        monkeypatch.setattr(syncer, name, fake)
    monkeypatch.setattr(group_positions, "read_offsets", read_offsets)
    monkeypatch.setattr(PopLog, "in_flight", nobody_pops)
    store = Store(tmp_path)
    made = Setup(store)
    yield made
    made.audit.close()
    for record in store.state.records():
        fit(*record, now=time.time())
    store.close()
