"""The fault proxy keeps bytes whole and in order, and makes exactly the faults it is asked for."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.client.peer import unused_port
from tests.support.frames import Frame, frame, read_frame
from tests.support.proxy import BrokerProxies, FaultProxy

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
SEND_BATCH, PULL = 320, 11


@contextlib.asynccontextmanager
async def served(handler: Handler, port: int = 0) -> AsyncIterator[tuple[str, int]]:
    async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await handler(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(guarded, "127.0.0.1", port, limit=1 << 20)
    async with server:
        yield server.sockets[0].getsockname()


@contextlib.asynccontextmanager
async def dialled(proxy: FaultProxy) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*proxy.listen, limit=1 << 20)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()


async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers each frame with code 0 and the body that it was sent."""
    while True:
        length = await reader.readexactly(4)
        rest = await reader.readexactly(int.from_bytes(length, "big"))
        seen = read_frame(length + rest, up=True)
        size = int.from_bytes(rest[:4], "big") & 0xFFFFFF
        writer.write(frame(0, seen.opaque, flag=1, body=rest[4 + size :]))


async def next_answer(reader: asyncio.StreamReader) -> Frame:
    length = await reader.readexactly(4)
    return read_frame(length + await reader.readexactly(int.from_bytes(length, "big")), up=False)


async def round_trip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> float:
    begun = time.perf_counter()
    writer.write(data)
    async with asyncio.timeout(20):
        assert await reader.readexactly(len(data)) == data
    return time.perf_counter() - begun


@pytest.mark.parametrize("frames", [False, True], ids=["raw", "frames"])
@pytest.mark.parametrize("delay", [0.0, 0.02])
async def test_bytes_arrive_whole_and_in_order(delay: float, frames: bool) -> None:
    pick = random.Random(7)
    sent = b"".join(frame(PULL, i, body=pick.randbytes(pick.randrange(60_000))) for i in range(200))
    async with (
        served(echo) as upstream,
        FaultProxy(("127.0.0.1", 0), upstream, delay=delay, frames=frames) as proxy,
        dialled(proxy) as (reader, writer),
    ):

        async def write() -> None:
            begin = 0
            while begin < len(sent):
                end = begin + pick.choice([1, 3, 700, 9_000, 300_000])
                writer.write(sent[begin:end])
                await writer.drain()
                begin = end
            writer.write_eof()

        received, _ = await asyncio.gather(reader.read(-1), write())
        assert received == sent
        assert (proxy.bytes_up, proxy.bytes_down) == (len(sent), len(sent))


async def test_bytes_stay_whole_when_the_reader_is_slow_and_buffers_are_small() -> None:
    sent = random.Random(1).randbytes(3_000_000)
    async with (
        served(echo) as upstream,
        FaultProxy(("127.0.0.1", 0), upstream, delay=0.002, max_buffer=100_000) as proxy,
        dialled(proxy) as (reader, writer),
    ):
        writer.write(sent)
        received = bytearray()
        while len(received) < len(sent):
            received += await reader.read(50_000)
            await asyncio.sleep(0.001)
        assert bytes(received) == sent


async def test_a_delay_costs_a_round_trip_and_no_bandwidth() -> None:
    async with (
        served(echo) as upstream,
        FaultProxy(("127.0.0.1", 0), upstream, delay=0.05) as proxy,
        dialled(proxy) as (reader, writer),
    ):
        await round_trip(reader, writer, b"warm")
        assert 0.099 <= await round_trip(reader, writer, b"x") < 0.2
        # 8 MB are over a hundred chunks: were each to wait for the one before it, this would take 10 s.
        assert await round_trip(reader, writer, bytes(8_000_000)) < 2


async def test_a_stall_holds_everything_back_and_loses_nothing() -> None:
    async with (
        served(echo) as upstream,
        FaultProxy(("127.0.0.1", 0), upstream) as proxy,
        dialled(proxy) as (
            reader,
            writer,
        ),
    ):
        await round_trip(reader, writer, b"before")
        proxy.stall()
        writer.write(b"during")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.1)
        proxy.resume()
        assert await asyncio.wait_for(reader.readexactly(6), 5) == b"during"


@pytest.mark.parametrize("direction", ["up", "down"])
async def test_a_stall_of_one_direction_lets_the_other_pass(direction: str) -> None:
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    writers: list[asyncio.StreamWriter] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        while data := await reader.read(100):
            heard.put_nowait(data)

    async with (
        served(note) as upstream,
        FaultProxy(("127.0.0.1", 0), upstream) as proxy,
        dialled(proxy) as (reader, writer),
    ):
        writer.write(b"before")
        assert await asyncio.wait_for(heard.get(), 5) == b"before"
        proxy.stall(up=direction == "up", down=direction == "down")
        writer.write(b"question")
        writers[0].write(b"answer")
        question = asyncio.create_task(heard.get())
        answer = asyncio.create_task(reader.readexactly(6))
        passing, held = (answer, question) if direction == "up" else (question, answer)
        await asyncio.wait_for(passing, 5)
        await asyncio.sleep(0.1)
        assert not held.done()
        proxy.resume()
        assert await asyncio.wait_for(question, 5) == b"question"
        assert await asyncio.wait_for(answer, 5) == b"answer"


async def test_a_stall_holds_what_is_already_under_way() -> None:
    async with (
        served(echo) as upstream,
        FaultProxy(("127.0.0.1", 0), upstream, delay=0.05) as proxy,
        dialled(proxy) as (reader, writer),
    ):
        await round_trip(reader, writer, b"warm")
        writer.write(b"late")
        await asyncio.sleep(0.02)
        proxy.stall()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.2)
        proxy.resume()
        assert await asyncio.wait_for(reader.readexactly(4), 5) == b"late"


async def test_order_is_kept_when_a_delay_ends() -> None:
    async with (
        served(echo) as upstream,
        FaultProxy(("127.0.0.1", 0), upstream, delay=0.1) as proxy,
        dialled(proxy) as (reader, writer),
    ):
        await round_trip(reader, writer, b"warm")
        writer.write(b"first ")
        await asyncio.sleep(0.03)
        proxy.delay = 0.0
        writer.write(b"second")
        assert await asyncio.wait_for(reader.readexactly(12), 5) == b"first second"


async def test_a_reset_does_not_wait_for_a_reader_that_does_not_read() -> None:
    over = asyncio.Event()

    async def deaf(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await over.wait()

    async with (
        served(deaf) as upstream,
        FaultProxy(("127.0.0.1", 0), upstream) as proxy,
        dialled(proxy) as (_, writer),
    ):
        writer.write(bytes(30_000_000))
        await asyncio.sleep(0.1)
        proxy.reset()
        await asyncio.wait_for(proxy.idle(), 5)
        over.set()


async def test_a_stall_hides_the_end_of_a_connection_until_it_is_over() -> None:
    gone = asyncio.Event()

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await echo(reader, writer)
        gone.set()

    async with served(watch) as upstream, FaultProxy(("127.0.0.1", 0), upstream) as proxy:
        async with dialled(proxy) as (reader, writer):
            await round_trip(reader, writer, b"x")
            proxy.stall()
        await asyncio.sleep(0.1)
        assert not gone.is_set()
        proxy.resume()
        await asyncio.wait_for(gone.wait(), 5)


async def test_connections_made_in_a_stall_hang_and_then_work() -> None:
    reached = asyncio.Event()

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        await echo(reader, writer)

    async with served(watch) as upstream, FaultProxy(("127.0.0.1", 0), upstream) as proxy:
        proxy.stall()
        async with dialled(proxy) as (reader, writer):
            writer.write(b"hello")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.1)
            assert not reached.is_set()
            proxy.resume()
            assert await asyncio.wait_for(reader.readexactly(5), 5) == b"hello"


async def test_a_reset_reaches_both_ends_as_rst() -> None:
    ends: asyncio.Queue[BaseException | bytes] = asyncio.Queue()

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(1))
        try:
            ends.put_nowait(await reader.read(1))
        except ConnectionError as error:
            ends.put_nowait(error)

    async with (
        served(watch) as upstream,
        FaultProxy(("127.0.0.1", 0), upstream) as proxy,
        dialled(proxy) as (
            reader,
            writer,
        ),
    ):
        await round_trip(reader, writer, b"x")
        assert proxy.connections == 1
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(1), 5)
        assert isinstance(await asyncio.wait_for(ends.get(), 5), ConnectionResetError)
        await asyncio.wait_for(proxy.idle(), 5)


async def test_refusing_resets_new_connections_only() -> None:
    async with (
        served(echo) as upstream,
        FaultProxy(("127.0.0.1", 0), upstream) as proxy,
        dialled(proxy) as (
            reader,
            writer,
        ),
    ):
        await round_trip(reader, writer, b"x")
        proxy.refuse()
        with pytest.raises(ConnectionError):
            async with dialled(proxy) as (late, _):
                await asyncio.wait_for(late.readexactly(1), 5)
        await round_trip(reader, writer, b"still there")
        proxy.accept()
        async with dialled(proxy) as (late, late_writer):
            await round_trip(late, late_writer, b"again")
        assert (proxy.accepted, proxy.refused) == (2, 1)


async def test_an_upstream_that_refuses_is_seen_as_a_reset() -> None:
    async with served(echo) as upstream:
        pass
    async with FaultProxy(("127.0.0.1", 0), upstream) as proxy:
        with pytest.raises(ConnectionError):
            async with dialled(proxy) as (reader, _):
                await asyncio.wait_for(reader.readexactly(1), 5)


async def test_the_end_of_a_connection_is_passed_on_and_forgotten() -> None:
    async with served(echo) as upstream, FaultProxy(("127.0.0.1", 0), upstream, delay=0.01) as proxy:
        async with dialled(proxy) as (reader, writer):
            writer.write(b"last words")
            writer.write_eof()
            assert await asyncio.wait_for(reader.read(-1), 5) == b"last words"
        await asyncio.wait_for(proxy.idle(), 5)
        assert proxy.connections == 0


async def test_only_the_chosen_answers_are_swallowed() -> None:
    async with (
        served(broker) as upstream,
        FaultProxy(("127.0.0.1", 0), upstream, frames=True) as proxy,
        dialled(proxy) as (reader, writer),
    ):
        swallow = proxy.drop_answers(lambda seen: seen.code == SEND_BATCH, times=2)
        codes = [PULL, SEND_BATCH, PULL, SEND_BATCH, SEND_BATCH, PULL]
        for opaque, code in enumerate(codes):
            writer.write(frame(code, opaque, body=b"b" * 5_000))
        async with asyncio.timeout(5):
            answered = [(await next_answer(reader)).opaque for _ in range(4)]
            await swallow.wait(2)
        assert answered == [0, 2, 4, 5]
        assert [seen.opaque for seen in swallow.swallowed] == [1, 3]
        assert swallow.left == 0


async def test_answers_can_be_told_apart_on_a_connection_that_is_already_in_use() -> None:
    async with (
        served(broker) as upstream,
        FaultProxy(("127.0.0.1", 0), upstream, frames=True) as proxy,
        dialled(proxy) as (reader, writer),
    ):
        writer.write(frame(SEND_BATCH, 1))
        assert (await next_answer(reader)).opaque == 1
        proxy.drop_answers(lambda seen: seen.code == SEND_BATCH)
        writer.write(frame(SEND_BATCH, 2) + frame(SEND_BATCH, 3))
        assert (await asyncio.wait_for(next_answer(reader), 5)).opaque == 3


async def test_a_proxy_without_frames_refuses_to_drop_answers() -> None:
    proxy = FaultProxy(("127.0.0.1", 0), ("127.0.0.1", 1))
    with pytest.raises(ValueError, match="frames=True"):
        proxy.drop_answers(lambda _: True)


async def test_the_hook_sees_every_frame_both_ways() -> None:
    seen: list[Frame] = []
    async with (
        served(broker) as upstream,
        FaultProxy(("127.0.0.1", 0), upstream, on_frame=seen.append) as proxy,
        dialled(proxy) as (reader, writer),
    ):
        writer.write(frame(PULL, 1) + frame(SEND_BATCH, 2, body=b"xy"))
        for _ in range(2):
            await asyncio.wait_for(next_answer(reader), 5)
    assert [(f.code, f.opaque, f.answer) for f in seen if f.up] == [(PULL, 1, False), (SEND_BATCH, 2, False)]
    assert [(f.code, f.opaque, f.answer) for f in seen if not f.up] == [(0, 1, True), (0, 2, True)]


async def test_broker_proxies_stand_before_both_ports() -> None:
    async def name(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(str(writer.get_extra_info("sockname")[1]).encode().ljust(5) + await reader.readexactly(1))

    port = unused_port()
    async with (
        served(name, port),
        served(name, port - 2),
        BrokerProxies(("127.0.0.2", port)) as proxies,
    ):
        for proxy, expected in ((proxies.main, port), (proxies.vip, port - 2)):
            async with dialled(proxy) as (reader, writer):
                writer.write(b".")
                assert await asyncio.wait_for(reader.readexactly(6), 5) == f"{expected:<5}.".encode()
