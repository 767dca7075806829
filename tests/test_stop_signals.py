"""What the first and the second signal do."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from replicator.stop_signals import StopSignals


async def test_work_that_ends_before_any_signal() -> None:
    """Its result is given, and its error raised."""
    signals = StopSignals()
    assert await signals.unless_asked(asyncio.sleep(0, "done")) == "done"

    async def fails() -> None:
        raise OSError("refused")

    with pytest.raises(OSError, match="refused"):
        await signals.unless_asked(fails())
    assert not signals.asked.is_set()


async def test_the_first_signal_cancels_work() -> None:
    """And is reported once."""
    signals, cancelled = StopSignals(), asyncio.Event()
    received: list[signal.Signals] = []
    signals.on_first(received.append)

    async def works() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    await signals.unless_asked(works())
    assert cancelled.is_set()
    assert signals.asked.is_set()
    assert received == [signal.SIGTERM]
    assert signals.second is None


async def test_the_second_signal_cancels_its_maker() -> None:
    """Whatever it waits for."""
    made: list[StopSignals] = []

    async def main() -> None:
        made.append(StopSignals())
        os.kill(os.getpid(), signal.SIGTERM)
        await made[0].asked.wait()
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(main())
    assert made[0].second is signal.SIGINT


@pytest.mark.parametrize("before", [1, 2])
async def test_no_signal_interrupts_what_its_maker_does_at_last(before: int) -> None:
    """It ends by itself soon, and would leave behind what it has not ended."""
    ended: list[str] = []

    async def main() -> None:
        signals = StopSignals()
        try:
            for _ in range(before):
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.sleep(0.01)
            await signals.asked.wait()
        finally:
            if before == 1:
                signals.end()
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.05)
            ended.append("all")

    await asyncio.gather(main(), return_exceptions=True)
    assert ended == ["all"]
