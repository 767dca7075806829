"""A writer of our own beside asyncio's reader: all bytes in order, and none after the permission is gone."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Sequence

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator.client.writer import SocketWriter
from tests.support.worker import until


class _Scene:
    """A writer into one end of a socket pair whose other end a test reads, or does not."""

    def __init__(self) -> None:
        self.ours, self.peer = socket.socketpair()
        self.ours.setblocking(False)
        self.peer.setblocking(False)
        self.allowed = True
        self.full: list[bool] = []
        self.broken: list[str] = []
        self.writer = SocketWriter(
            self.ours, may_go_on=lambda: self.allowed, on_full=self.full.append, on_broken=self._on_broken
        )

    def _on_broken(self, why: str) -> None:
        self.broken.append(why)
        self.writer.close()

    async def read(self, count: int) -> bytes:
        found = b""
        loop = asyncio.get_running_loop()
        while len(found) < count:
            found += await loop.sock_recv(self.peer, min(1 << 20, count - len(found)))
        return found

    def close(self) -> None:
        self.writer.close()
        self.ours.close()
        self.peer.close()


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=request.param) as made:
        yield made


@settings(deadline=None, max_examples=15)
@given(
    writes=st.lists(
        st.lists(st.sampled_from([0, 1, 100, 70_000, 3_000_000]), max_size=4) | st.just([10] * 2500),
        min_size=1,
        max_size=6,
    )
)
def test_all_bytes_come_in_order(writes: list[list[int]]) -> None:
    """Also of more pieces than the kernel takes at once."""

    async def write() -> None:
        scene = _Scene()
        pieces = [
            [bytes([(7 * i + j) % 251]) * size for j, size in enumerate(each)] for i, each in enumerate(writes)
        ]
        for each in pieces:
            scene.writer.write(each)
        expected = b"".join(piece for each in pieces for piece in each)
        async with asyncio.timeout(20):
            assert await scene.read(len(expected)) == expected
        assert not scene.broken
        assert scene.full[-1:] in ([], [False])
        scene.close()

    uvloop.run(write())


def test_what_did_not_fit_is_not_written_without_permission(runner: asyncio.Runner) -> None:
    """The peer gets the beginning of a request and never its end."""

    async def write() -> None:
        scene = _Scene()
        scene.writer.write([bytes(8_000_000)])
        await asyncio.sleep(0)  # what fits is written
        scene.allowed = False
        there = 0
        async with asyncio.timeout(10):
            while not scene.broken:
                await asyncio.sleep(0)
                with contextlib.suppress(BlockingIOError):
                    there += len(scene.peer.recv(1 << 16))
        assert "may not send now" in scene.broken[0]
        scene.ours.close()
        rest = 0
        while piece := await asyncio.get_running_loop().sock_recv(scene.peer, 1 << 20):
            rest += len(piece)
        assert 0 < there + rest < 8_000_000
        scene.close()

    runner.run(write())


def test_what_was_given_is_not_written_once_it_may_not_be(runner: asyncio.Runner) -> None:
    """A process may be paused between the two. What never needed permission is written."""

    async def write() -> None:
        scene = _Scene()
        scene.allowed = False
        scene.writer.write([b"first"])
        assert await scene.read(5) == b"first"
        scene.writer.write([b"second"])
        scene.allowed = True
        scene.writer.write([b"third"])
        scene.allowed = False
        await until(lambda: scene.broken)
        scene.ours.close()
        assert await asyncio.get_running_loop().sock_recv(scene.peer, 100) == b""
        scene.close()

    runner.run(write())


def test_what_is_given_in_one_turn_is_one_write(runner: asyncio.Runner) -> None:
    async def write() -> None:
        scene = _Scene()
        sent: list[int] = []
        send = scene.writer._send

        def watched(pieces: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
            sent.append(len(pieces))
            return send(pieces)

        scene.writer._send = watched  # type: ignore[method-assign]
        for piece in (b"a", b"b", b"c"):
            scene.writer.write([piece])
        assert await scene.read(3) == b"abc"
        assert sent == [3]
        scene.close()

    runner.run(write())


def test_senders_are_told_to_wait_and_to_go_on(runner: asyncio.Runner) -> None:
    async def write() -> None:
        scene = _Scene()
        for _ in range(3):
            scene.writer.write([bytes(4_000_000)])
        assert scene.full == [True]
        await scene.read(12_000_000)
        await until(lambda: scene.full == [True, False], seconds=10)
        scene.close()

    runner.run(write())


def test_a_peer_that_is_gone_is_told_once(runner: asyncio.Runner) -> None:
    async def write() -> None:
        scene = _Scene()
        scene.writer.write([bytes(4_000_000)])
        scene.peer.close()
        await until(lambda: scene.broken, seconds=10)
        assert len(scene.broken) == 1
        scene.close()

    runner.run(write())
