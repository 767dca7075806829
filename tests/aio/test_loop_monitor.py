"""What is called at each beat of the event loop, and what if it fails."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from replicator.aio import loop_monitor
from replicator.aio.loop_monitor import EventLoopMonitor
from tests.support.worker import until


async def test_one_that_fails_keeps_none_from_being_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else systemd would no longer hear that the worker is alive, and kill it without a word."""
    monkeypatch.setattr(loop_monitor, "_BEAT", 0.01)
    called: list[str] = []

    def broken() -> None:
        called.append("broken")
        raise RuntimeError("dictionary changed size during iteration")

    with capture_logs() as logs:
        running = asyncio.create_task(EventLoopMonitor([broken, lambda: called.append("alive")]).run())
        await until(lambda: called.count("alive") > 1 or running.done())
        assert not running.done()
        running.cancel()
    assert called[:4] == ["broken", "alive"] * 2
    assert logs[0]["reason"] == "RuntimeError: dictionary changed size during iteration"
