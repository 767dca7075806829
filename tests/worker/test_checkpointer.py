"""What is known of tasks goes to disk whole, one writer at a time."""

from __future__ import annotations

import asyncio
import errno
import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import msgspec
import pytest
from structlog.testing import capture_logs

from replicator.connector.status import QueueSums
from replicator.routing.queue_map import Queue
from replicator.routing.state import QueueState
from replicator.state.record import Kind
from replicator.state.store import Store
from replicator.worker.checkpointer import Progress
from tests.support.worker import until

HALTED = cast("Any", SimpleNamespace(states=[], still_to_tell=lambda *_: []))


class SlowStore(Store):
    """Writes nothing until it may."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.begun: list[Mapping[str, msgspec.Raw]] = []
        self.may_go_on = threading.Event()

    def write(self, snapshot: Mapping[str, msgspec.Raw]) -> None:
        self.begun.append(snapshot)
        assert self.may_go_on.wait(20)
        super().write(snapshot)


async def test_two_saves_at_once_write_one_after_the_other(tmp_path: Path) -> None:
    """Both would write the same file beside the last one, and the older state could come last."""
    store = SlowStore(tmp_path)
    routes: Any = SimpleNamespace(keep=AsyncMock())
    progress = Progress(store, cast("Any", None), routes, HALTED, cast("Any", None))
    store.put(Kind.POSITION, "T", {"position": 1, "start": 0})
    first = asyncio.create_task(progress.save(force=True))
    await until(lambda: store.begun)
    store.put(Kind.POSITION, "T", {"position": 2, "start": 0})
    second = asyncio.create_task(progress.save(force=True))
    await asyncio.sleep(0.1)  # time in which it could begin, which it must not
    assert len(store.begun) == 1
    store.may_go_on.set()
    await asyncio.gather(first, second)
    assert len(store.begun) == 2
    store.close()
    kept = Store(tmp_path).state.get(Kind.POSITION, "T")
    assert kept == {"position": 2, "start": 0}


async def test_a_save_that_is_cut_off_is_over_before_the_next_one_begins(tmp_path: Path) -> None:
    """As the last one of a worker does, whose periodic save had got its time to finish and did not."""
    store = SlowStore(tmp_path)
    routes: Any = SimpleNamespace(keep=AsyncMock())
    progress = Progress(store, cast("Any", None), routes, HALTED, cast("Any", None))
    store.put(Kind.POSITION, "T", {"position": 1, "start": 0})
    periodic = asyncio.create_task(progress.save())
    await until(lambda: store.begun)
    periodic.cancel()
    with pytest.raises(asyncio.CancelledError):
        await periodic
    store.put(Kind.POSITION, "T", {"position": 2, "start": 0})
    last = asyncio.create_task(progress.save(force=True))
    await asyncio.sleep(0.1)  # time in which it could begin, which it must not
    assert len(store.begun) == 1
    store.may_go_on.set()
    await last
    assert len(store.begun) == 2
    store.close()
    assert Store(tmp_path).state.get(Kind.POSITION, "T") == {"position": 2, "start": 0}


async def test_a_directory_that_takes_nothing_is_a_line_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it is tried each second, and another file fails each time; the end of it is a line, too."""
    at = [1000.0]
    files: Iterator[str] = itertools.cycle(["position.json", "offset.json"])

    def refuse(_snapshot: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", next(files))

    monkeypatch.setattr("replicator.observe.reminder.now", lambda: at[0])
    store = Store(tmp_path)
    progress = Progress(
        store, cast("Any", None), cast("Any", SimpleNamespace(keep=AsyncMock())), HALTED, cast("Any", None)
    )
    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(store, "write", refuse)
        for _ in range(90):
            await progress.save(force=True)
            at[0] += 1
        assert progress.saved_at == 0.0
    assert [entry["event"] for entry in logs] == ["state cannot be saved"] * 2
    assert logs[0]["reason"] == "[Errno 13] Permission denied: 'position.json'"
    with capture_logs() as logs:
        for _ in range(3):
            await progress.save(force=True)
    assert [entry["event"] for entry in logs] == ["state is saved again"]
    assert progress.saved_at


async def test_progress_that_takes_long_to_add_up_is_told_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundredth of a core at most, but at once where it must be; what was changed is told each time."""
    clock = SimpleNamespace(now=1000.0)
    added, told = [], []

    async def keep(*, ended: bool) -> None:
        added.append(ended)

    class Slow(QueueSums):
        def add(self, states: Iterable[QueueState]) -> None:
            clock.now += 0.025
            super().add(states)

    async def publish() -> None:
        told.append(len(added))

    monkeypatch.setattr("replicator.worker.checkpointer.QueueSums", Slow)
    monkeypatch.setattr("time.monotonic", lambda: clock.now)
    monkeypatch.setattr("time.thread_time", lambda: clock.now)
    routes: Any = SimpleNamespace(
        keep=keep,
        states=[QueueState("t", Queue("a", 0), Queue("b", 0))],
        problems={},
        connector_problems={},
        rate_uses=dict,
        share_rates=lambda: None,
    )
    group: Any = SimpleNamespace(coordinator=SimpleNamespace(me="w1"), publish=publish)
    progress = Progress(Store(tmp_path), group, routes, HALTED, cast("Any", SimpleNamespace(clean=lambda _: None)))
    for _ in range(4):
        await progress.publish()
        clock.now += 2
    await progress.publish(force=True)
    assert told == [1, 1, 1, 2, 3]
