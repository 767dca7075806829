"""The wire that the benchmarks make connections longer with: late, whole, in order, and ended with them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NEAR, FAR = "127.0.0.1", "127.0.0.2"


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 18):
        writer.write(data)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def _wire(*, delay_ms: int) -> AsyncIterator[int]:
    """A wire before an echo; gives the port."""
    server = await asyncio.start_server(_echo, NEAR, 0)
    port = server.sockets[0].getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.wire", "--delay-ms", str(delay_ms)),
        *("--listen", f"{FAR}:{port}", "--upstream", f"{NEAR}:{port}"),
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        async with server:
            yield port
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 10) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize("delay_ms", [0, 20])
async def test_all_bytes_come_in_order_and_late(delay_ms: int) -> None:
    """More than pipes and sockets hold while nobody reads, in pieces of all sizes."""
    data = os.urandom(40 << 20)
    loop = asyncio.get_running_loop()
    async with _wire(delay_ms=delay_ms) as port, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(FAR, port)
        for _ in range(3):
            began = loop.time()
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
            assert loop.time() - began >= 2 * delay_ms / 1000

        async def write() -> None:
            at, sizes = 0, (1, 100, 5000, 100_000, 1_000_000)
            while at < len(data):
                size = sizes[at % len(sizes)]
                writer.write(data[at : at + size])
                at += size
                await writer.drain()

        writing = asyncio.create_task(write())
        await asyncio.sleep(0.3)  # nobody reads what comes back
        assert await reader.readexactly(len(data)) == data
        await writing
        writer.close()


async def test_a_connection_ends_with_its_other_half() -> None:
    """Behind what was sent before."""
    async with asyncio.timeout(20):
        async with _wire(delay_ms=20) as port:
            reader, writer = await asyncio.open_connection(FAR, port)
            writer.write(b"last")
            assert await reader.readexactly(4) == b"last"
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()
