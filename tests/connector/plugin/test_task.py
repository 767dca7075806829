"""What becomes of a plugin's task when things go wrong, and what goes over the wire; without brokers."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from replicator.connector.plugin import task as task_module
from replicator.connector.plugin.sink import _record
from replicator.connector.plugin.source import _batches
from replicator.connector.plugin.task import PluginTask
from replicator.errors import Unreachable
from replicator.plugins import Polled, Position, Record, TaskFailed
from replicator.protocol.batch import unpack
from replicator.protocol.message import StoredMessage
from replicator.routing.faults import LeaseLost, MessageRejected
from replicator.routing.queue_map import Queue
from replicator.routing.state import Phase, QueueState


class _Task(PluginTask):
    """Raises `errors` in turn, then ends as if drained; notes its phase at each start."""

    def __init__(self, *errors: Exception, position: Position | None = None) -> None:
        super().__init__("c/0", position, may_send=lambda: True)
        self.states = [QueueState("t", Queue("b", 0), Queue("b", 0))]
        self.errors = list(errors)
        self.seen: list[tuple[Phase, str]] = []

    async def _work(self) -> None:
        self.seen.append((self.phase, self.states[0].reason))
        if not self.errors:
            self.drain()
            return
        raise self.errors.pop(0)


@pytest.mark.parametrize(
    ("error", "phase", "reason"),
    [
        (Unreachable("b", "it is away"), Phase.WAITING, "it is away"),
        (LeaseLost("others may own it"), Phase.WAITING, "others may own it"),
        (FileNotFoundError("no such file"), Phase.WAITING, "no such file"),
        (TaskFailed("cut off", hint="look"), Phase.FAILED, "cut off: look"),
        (MessageRejected("too large"), Phase.FAILED, "too large"),
        (KeyError("a bug"), Phase.FAILED, "KeyError: 'a bug'"),
    ],
)
async def test_errors_are_shown_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception, phase: Phase, reason: str
) -> None:
    monkeypatch.setattr(task_module, "_FAILED", (0.01, 0.01))
    task = _Task(error, error)
    with capture_logs() as logs:
        await asyncio.wait_for(task.run(), 10)
    assert task.seen[0] == (Phase.STARTING, "")
    assert [seen[0] for seen in task.seen[1:]] == [phase, phase]
    assert all(reason in seen[1] for seen in task.seen[1:])
    assert sum(entry["event"] == phase.lower() for entry in logs) == 1, "the same reason is logged once"
    assert task.phase is Phase.STOPPED


async def test_a_failed_task_that_is_drained_ends_at_once() -> None:
    task = _Task(TaskFailed("cut off"))
    run = asyncio.create_task(task.run())
    await asyncio.sleep(0)
    task.drain()
    await asyncio.wait_for(run, 5)


def _polled(*sizes: int) -> list[Polled]:
    return [Polled(Record("t", b"x" * size, {"KEYS": "k"}), {"n": i}) for i, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "positions"),
    [
        ([], []),
        ([10], [0]),
        ([10, 10, 10], [2]),
        ([4000, 4000, 4000], [1, 2]),
        ([10, 20_000, 10], [0, 1, 2]),
        ([1] * 30, [29]),
        ([1] * 1030, [1023, 1029]),
    ],
)
def test_batches_keep_to_the_limit_and_the_order(sizes: list[int], positions: list[int]) -> None:
    limit = 10_000 if len(sizes) < 100 else 10_000_000
    found = list(_batches("t", _polled(*sizes), limit))
    assert [last.position["n"] for _, last in found] == positions
    bodies = [unpack(entry)[2] for entries, _ in found for entry in entries]
    assert [len(body) - 4 for body in bodies] == sizes


def test_properties_that_no_message_can_have_are_refused() -> None:
    with pytest.raises(MessageRejected, match="bytes of properties, 32767 are possible"):
        list(_batches("t", [Polled(Record("t", b"", {"a": "x" * 40_000}), {})], 10_000))


def _message(body: bytes, sys_flag: int) -> StoredMessage:
    return StoredMessage(7, 0, sys_flag, 0, 0, 0, 0, len(body).to_bytes(4) + body, b"KEYS\x01k\x02")


@pytest.mark.parametrize(("sys_flag", "pack"), [(0, bytes), (0x1, zlib.compress), (0x301, zlib.compress)])
def test_a_sink_gets_bodies_as_their_producers_wrote_them(sys_flag: int, pack: Callable[[bytes], bytes]) -> None:
    state = QueueState("t", Queue("b", 3), Queue("p", 0))
    assert _record(state, _message(pack(b"body"), sys_flag)) == Record("t", b"body", {"KEYS": "k"})


@pytest.mark.parametrize(
    ("body", "sys_flag", "reason"),
    [
        (b"?", 0x501, "compressed in an unknown way"),
        (b"????", 0x301, "cannot be decompressed"),
        (zlib.compress(b"body")[:-5], 0x301, "is cut off"),
    ],
)
def test_a_body_that_cannot_be_read_stops_the_sink(body: bytes, sys_flag: int, reason: str) -> None:
    state = QueueState("t", Queue("b", 3), Queue("p", 0))
    with pytest.raises(TaskFailed, match=f"message t/b/3/7 .*{reason}"):
        _record(state, _message(body, sys_flag))
