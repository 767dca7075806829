"""Work in a thread of its own: its result and its error come back, and nobody has to wait for it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from replicator.aio.own_thread import in_own_thread


async def test_what_it_returns_and_raises() -> None:
    assert await in_own_thread(lambda: threading.current_thread().daemon) is True
    with pytest.raises(ZeroDivisionError):
        await in_own_thread(lambda: 1 // 0)


async def test_a_caller_that_does_not_wait() -> None:
    """What comes later is dropped."""
    may_end, ended = threading.Event(), threading.Event()

    def work() -> None:
        may_end.wait(10)
        ended.set()

    waiting = asyncio.create_task(in_own_thread(work))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    may_end.set()
    assert await asyncio.to_thread(ended.wait, 10)
    await asyncio.sleep(0)
