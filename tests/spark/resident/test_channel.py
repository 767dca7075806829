"""Frames arrive in order, and only those that the other side has sent on this connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from replicator.spark.resident.channel import Channel, ChannelLost

KEY = b"k" * 32


@asynccontextmanager
async def channels(key: bytes = KEY) -> AsyncIterator[tuple[Channel, Channel]]:
    """The worker's end, and that of a task that has `key`."""
    accepted: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set_result(await Channel.accept(reader, writer, KEY))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    task = await Channel.connect(server.sockets[0].getsockname()[:2], key)
    worker = await accepted
    try:
        yield worker, task
    finally:
        worker.close()
        task.close()
        server.close()


async def test_both_ways() -> None:
    async with channels() as (worker, task):
        for body in (b"one", b"", b"x" * 200_000):
            task.send(body)
            worker.send(body[::-1])
        for body in (b"one", b"", b"x" * 200_000):
            assert await worker.receive() == body
            assert await task.receive() == body[::-1]


async def test_another_key() -> None:
    async with channels(b"x" * 32) as (worker, task):
        task.send(b"hello")
        with pytest.raises(ChannelLost, match="did not send"):
            await worker.receive()


async def test_a_frame_again_and_a_frame_from_the_other_side() -> None:
    """The HMAC is of the connection, of the speaker, and of the place in the row."""
    async with channels() as (worker, task), channels() as (another, _):
        frame = (5).to_bytes(4) + task._digest("task", 0, b"hello") + b"hello"
        for there in (worker, worker, another, task):
            there._reader.feed_data(frame)
        assert await worker.receive() == b"hello"
        for there in (worker, another, task):
            with pytest.raises(ChannelLost, match="did not send"):
                await there.receive()


async def test_the_end() -> None:
    async with channels() as (worker, task):
        task.close()
        with pytest.raises(ChannelLost, match="ended"):
            await worker.receive()


async def test_nobody_there() -> None:
    with pytest.raises(ChannelLost, match=r"spark\.driver\.host"):
        await Channel.connect(("127.0.0.1", 1), KEY)
