"""Jobs that fix once what they copy say of which source brokers: one that was away then is not among them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from replicator.client.cluster import Topology
from replicator.client.topics import TopicConfig
from replicator.operate.jobs import backfill, export
from replicator.ranges.copy_job import CopyJob, Range
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.queue_map import Queue
from replicator.settings import Settings
from tests.ranges.one_queue import OneQueue

SETTINGS = Settings.model_validate({"source": {"namesrv": "s:1"}, "target": {"namesrv": "t:1"}})


def said(logs: list[Any]) -> list[Any]:
    return [line["source_brokers"] for line in logs if "source_brokers" in line]


async def test_an_export_names_its_brokers() -> None:
    config = TopicConfig(name="T", read_queues=2, write_queues=2)
    source: Any = SimpleNamespace(topics={"b": {"T": config}, "a": {"T": config}, "c": {}}, cluster=OneQueue(0, 5))
    with capture_logs() as logs:
        contents = await export._contents(SETTINGS, source, Topology("s", {}), {})
    assert len(contents.slices) == 4
    assert said(logs) == [["a", "b"]]


async def test_a_backfill_names_its_brokers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """When it begins; a run that continues it has the same."""

    class Preflight:
        context = SimpleNamespace(identity=Identity("s", "t"))

        @property
        def job(self) -> Any:
            return CopyJob.of(SETTINGS, RouteOptions(identity=Identity("s", "t")))

        def claimed(self, _command: str) -> Any:
            return nullcontext()

        async def nothing(self, *_: object) -> None:
            """All is well."""

        check = make_ready = refuse_others = nothing

        async def ranges(self) -> list[Range]:
            return [Range("T", Queue(broker, 0), "T", Queue("x", 0), 0, 9) for broker in ("b", "a", "b")]

    @asynccontextmanager
    async def surveying(*_: object, **__: object) -> AsyncIterator[Preflight]:
        yield Preflight()

    monkeypatch.setattr(backfill, "surveying", surveying)
    for expected in ([["a", "b"]], []):
        with ExitStack() as stack, capture_logs() as logs:
            await backfill._prepare(SETTINGS, tmp_path / "manifest.json", lambda: None, stack)
        assert said(logs) == expected
