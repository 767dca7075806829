"""What a sink plugin's task does with the answers of its queues, in their order; without brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from replicator.client.pull import Pulled
from replicator.connector.plugin import sink
from replicator.connector.plugin.sink import PluginSinkTask
from replicator.plugins import Record, SinkTask
from replicator.protocol.codes import Response
from replicator.protocol.message import StoredMessage
from replicator.routing.message_queue import MessageQueue

_QUEUE = str(MessageQueue("t", "b", 0))


class _Put(SinkTask):
    """Blocks in each `put` until `through` is set."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.waiting = asyncio.Event()
        self.through = asyncio.Event()

    async def start(self) -> None:
        """Nothing to open."""

    async def put(self, records: Sequence[Record]) -> None:
        self.waiting.set()
        await self.through.wait()
        self.bodies += [record.body for record in records]

    async def stop(self) -> None:
        """Nothing to close."""


def _answer(code: int, offsets: range, begin: int, end: int) -> Pulled:
    messages = [
        StoredMessage(offset, 0, 0, 0, 0, 0, 0, b"\x00\x00\x00\x01%d" % (offset % 10), b"") for offset in offsets
    ]
    return Pulled(code, "", messages, offsets.stop, begin, end, 0)


class _Source:
    """Answers pulls of the one queue in turn, then says nothing more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Pulled) -> None:
        self.answers = list(answers)
        self.asked: list[int] = []
        self.over = asyncio.Event()
        monkeypatch.setattr(sink, "pull", self._pull)

    async def _pull(self, _reader: object, _topic: str, _queue: int, offset: int, **_: object) -> Pulled:
        self.asked.append(offset)
        if not self.answers:
            self.over.set()
            await asyncio.Event().wait()
        return self.answers.pop(0)


def _task(put: _Put, position: int) -> PluginSinkTask:
    cluster = SimpleNamespace(
        reader=lambda _broker: SimpleNamespace(address="b:10911"), is_master=lambda _broker, _address: True
    )
    source = SimpleNamespace(topics={"b": {"t": SimpleNamespace(queues=1)}}, cluster=cluster)
    context = cast("Any", SimpleNamespace(source=source, may_send=lambda: True))
    return PluginSinkTask("c/0", {_QUEUE: position}, lambda: put, context, plugin="p", topics=["t"])


@pytest.mark.parametrize(
    ("begin", "end", "gaps", "resets"), [(10, 20, 5, 0), (0, 3, 0, 1)], ids=["expired", "recreated"]
)
async def test_a_queue_that_moves_moves_the_position_after_what_came_before_it(
    monkeypatch: pytest.MonkeyPatch, begin: int, end: int, gaps: int, resets: int
) -> None:
    """Never past messages that were not put yet, and never back to those of the queue that was there before."""
    put = _Put()
    source = _Source(
        monkeypatch,
        _answer(Response.SUCCESS, range(3, 5), 0, 5),
        _answer(Response.PULL_OFFSET_MOVED, range(0), begin, end),
    )
    task = _task(put, 3)
    run = asyncio.create_task(task.run())
    await asyncio.wait_for(asyncio.gather(put.waiting.wait(), source.over.wait()), 10)
    assert source.asked == [3, 5, begin]
    assert task.position == {_QUEUE: 3}, "what is not put yet would be lost by a restart"
    (state,) = task.states
    assert (state.counters.gaps, state.counters.resets) == (0, 0)
    put.through.set()
    await asyncio.sleep(0.05)
    assert task.position == {_QUEUE: begin}
    assert state.progress.position == begin
    assert put.bodies == [b"3", b"4"]
    assert (state.counters.gaps, state.counters.resets) == (gaps, resets)
    task.drain()
    await asyncio.wait_for(run, 10)


async def test_what_a_broker_cannot_read_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says where to go on, without a message: asked again at the same place it would say so again."""
    put = _Put()
    put.through.set()
    source = _Source(
        monkeypatch,
        _answer(Response.PULL_RETRY_IMMEDIATELY, range(9, 9), 0, 20),
        _answer(Response.SUCCESS, range(9, 11), 0, 20),
    )
    task = _task(put, 3)
    run = asyncio.create_task(task.run())
    await asyncio.wait_for(source.over.wait(), 10)
    await asyncio.sleep(0.05)
    assert (source.asked, task.position) == ([3, 9, 11], {_QUEUE: 11})
    assert (task.states[0].counters.gaps, put.bodies) == (6, [b"9", b"0"])
    task.drain()
    await asyncio.wait_for(run, 10)


async def test_a_broker_that_makes_no_progress_is_not_asked_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    put = _Put()
    monkeypatch.setattr(sink, "_POLL_INTERVAL", 0.3)
    source = _Source(monkeypatch, *[_answer(Response.PULL_RETRY_IMMEDIATELY, range(3, 3), 0, 20)] * 50)
    task = _task(put, 3)
    run = asyncio.create_task(task.run())
    await asyncio.sleep(0.1)
    assert len(source.asked) == 1
    task.drain()
    await asyncio.wait_for(run, 10)
