"""A range whose queue ends before it does by now: a broker holds each pull there, and says no more."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from typing import Any, cast

import pytest

from replicator.client.cluster import Cluster
from replicator.errors import ReplicatorError
from replicator.ranges import reader as under_test
from replicator.ranges.reader import RangeReader
from replicator.routing.faults import SourceReset
from replicator.routing.queue_map import Queue
from tests.ranges.one_queue import OneQueue


def reader_of(broker: OneQueue, start: int, end: int, **more: Any) -> RangeReader:
    return RangeReader(cast("Cluster", broker), "T", Queue("a", 0), start, end, **more)


async def read(reader: RangeReader) -> list[int]:
    """The offsets that it gives; in vain it would wait for ever."""
    async with asyncio.timeout(5):
        return [message.queue_offset async for chunk in reader.chunks() for message in chunk]


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "PATIENCE", 0.3)
    monkeypatch.setattr(under_test, "_PAUSE", 0.01)


@pytest.mark.parametrize("start", [0, 40, 50])
async def test_a_queue_that_has_become_shorter_is_not_waited_for(start: int) -> None:
    """Wherever the reader stands: before the end that there is now, at it, or behind it."""
    reader = reader_of(OneQueue(0, 40), start, 100)
    with pytest.raises(SourceReset, match="the source queue ends at offset 40, before the position"):
        await read(reader)
    assert reader.position == max(start, 40)


@pytest.mark.parametrize("start", [0, 40, 50])
async def test_what_it_lacks_is_left_out_where_that_is_asked_for(start: int) -> None:
    reader = reader_of(OneQueue(0, 40), start, 100, on_loss="skip")
    assert await read(reader) == [*range(start, 40)]
    assert reader.gaps == 100 - max(start, 40)


async def test_a_shorter_queue_may_be_refused_where_gaps_are_left_out() -> None:
    """What retention has deleted is gone, and what the queue does not have is not a gap."""
    reader = reader_of(OneQueue(10, 40), 0, 100, on_loss="skip", on_reset="fail")
    with pytest.raises(SourceReset):
        await read(reader)
    assert (reader.position, reader.gaps) == (40, 10)


@pytest.mark.parametrize("on_loss", ["fail", "skip"])
async def test_a_slave_that_has_less_than_its_master_had_is_no_proof(on_loss: str) -> None:
    """The range is read on when the master is back; if it stays away, that is said."""
    broker = OneQueue(0, 40)
    broker.is_slave = True
    reader = reader_of(broker, 0, 100, on_loss=on_loss)
    with pytest.raises(ReplicatorError, match=r"T/a/0 cannot be read for 0.3 s: slave b:1 ends at offset 40"):
        await read(reader)
    assert (reader.position, reader.gaps) == (40, 0)


async def test_a_master_that_comes_back_is_read() -> None:
    broker = OneQueue(0, 40)
    broker.is_slave = True

    def back() -> None:
        broker.is_slave, broker.high = False, 100

    asyncio.get_running_loop().call_later(0.4, back)
    assert await read(reader_of(broker, 0, 100)) == [*range(100)]


async def test_a_slow_broker_is_waited_for() -> None:
    """Each answer counts, however long all of them take."""
    began = time.monotonic()
    assert await read(reader_of(OneQueue(0, 200, delay=0.1), 0, 200)) == [*range(200)]
    assert time.monotonic() - began > 0.3


_SUSPENDED = """
import asyncio
from replicator.ranges import reader
from tests.ranges.one_queue import OneQueue
from tests.ranges.test_reader import read, reader_of

async def main():
    reader.PATIENCE = 0.5
    broker = OneQueue(0, 40)  # which does not show yet what it has stored
    asyncio.get_running_loop().call_later(0.3, setattr, broker, "high", 100)
    print("ready", flush=True)
    print(await read(reader_of(broker, 0, 100)) == [*range(100)])

asyncio.run(main())
"""


def test_a_process_that_was_suspended_asks_again() -> None:
    """What the broker said before is an old answer, and the time that passed was not spent waiting for it."""
    process = subprocess.Popen([sys.executable, "-c", _SUSPENDED], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(1.0)
    os.kill(process.pid, signal.SIGCONT)
    assert process.communicate(timeout=20)[0] == "True\n"
