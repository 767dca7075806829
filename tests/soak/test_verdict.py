"""The judge of a soak finds workers that are busy with nothing, by their CPU time and by their logs."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.soak import verdict

_SECONDS = 0.4


class Worker:
    """A process, and what it has logged."""

    def __init__(self, name: str, pid: int, *modules: str) -> None:
        self.store = Path(name) / "store"
        self.pid = pid
        self.events = [{"module": module} for module in modules]


class Idling:
    """Takes the place of waiting: this process uses so much CPU time meanwhile, and workers log these `lines`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cpu = 0.0
        self.lines: list[tuple[Worker, str]] = []
        monkeypatch.setattr(verdict, "_IDLE_SECONDS", _SECONDS)
        monkeypatch.setattr(verdict, "asyncio", SimpleNamespace(sleep=self.sleep))

    async def sleep(self, seconds: float) -> None:
        assert seconds == _SECONDS
        until = time.process_time() + self.cpu
        while time.process_time() < until:
            pass
        for worker, module in self.lines:
            worker.events.append({"module": module})


async def hot(*workers: Worker) -> list[str]:
    return await verdict._hot(cast("Any", SimpleNamespace(workers=workers)))


@pytest.fixture
def sleeping() -> Iterator[int]:
    """The id of a process that does nothing, from its first moment on."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


async def test_a_worker_that_spins_is_found(monkeypatch: pytest.MonkeyPatch, sleeping: int) -> None:
    """And the one beside it that sleeps is not."""
    idling = Idling(monkeypatch)
    idling.cpu = 0.6 * _SECONDS
    (found,) = await hot(Worker("w0", sleeping), Worker("w1", os.getpid()))
    assert found.startswith("w1 is busy with nothing: 0.")
    idling.cpu = 0.0
    assert await hot(Worker("w0", sleeping), Worker("w1", os.getpid())) == []


async def test_a_worker_that_logs_without_an_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what a busy machine has all periodic work say."""
    idling, talking = Idling(monkeypatch), Worker("w0", os.getpid(), "x", "y")
    idling.lines = [(talking, "worker.worker")] * 2
    (found,) = await hot(talking)
    assert found.endswith("300 lines a minute")
    idling.lines = [(talking, "aio.schedule")] * 20
    assert await hot(talking) == []
