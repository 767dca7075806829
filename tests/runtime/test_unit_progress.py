"""What is known of tasks goes to disk whole, one writer at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from replicator.runtime.progress import Progress
from replicator.runtime.records import Kind
from replicator.runtime.store import Store
from tests.support.worker import until


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
    routes: Any = SimpleNamespace(keep=lambda *, ended: ended)
    progress = Progress(store, cast("Any", None), routes, cast("Any", None))
    store.put(Kind.POSITION, "T", {"position": 1})
    first = asyncio.create_task(progress.save(force=True))
    await until(lambda: store.begun)
    store.put(Kind.POSITION, "T", {"position": 2})
    second = asyncio.create_task(progress.save(force=True))
    await asyncio.sleep(0.1)  # time in which it could begin, which it must not
    assert len(store.begun) == 1
    store.may_go_on.set()
    await asyncio.gather(first, second)
    assert len(store.begun) == 2
    store.close()
    kept = Store(tmp_path).state.get(Kind.POSITION, "T")
    assert kept == {"position": 2}
