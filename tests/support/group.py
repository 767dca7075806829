"""Groups of workers as their users run them: several processes with one source and one target."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from replicator.sandbox import Cluster, ClusterSpec
from tests.support.traffic import Producer, raw_topic
from tests.support.worker import Worker

__all__ = ["EAST", "WEST", "caught_up", "plain", "producing", "said", "share", "workers_of"]

EAST, WEST = ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.3.3")


@asynccontextmanager
async def workers_of(
    source: Cluster, target: Cluster, directory: Path, count: int, *flags: str
) -> AsyncIterator[list[Worker]]:
    workers = [Worker(source, target, directory / f"w{i}", "--worker-id", f"w{i}", *flags) for i in range(count)]
    try:
        await asyncio.gather(*(worker.start() for worker in workers))
        yield workers
    finally:
        for worker in workers:
            await worker.kill()


async def said(source: Cluster) -> list[str]:
    """All that groups have written to the system topics, decompressed, each with its properties."""
    found = []
    for system in ("replicator_sys_control", "replicator_sys_source_online", "replicator_sys_sink_online"):
        for messages in (await raw_topic(source, system)).values():
            found += [plain(message.body[4:]) + repr(message.properties) for message in messages]
    return found


def plain(body: bytes) -> str:
    """The body of a message on a system topic, without its signature, decompressed."""
    if body.startswith(b"signed "):
        body = body.partition(b"\n")[2]
    try:
        return zlib.decompress(body).decode(errors="replace")
    except zlib.error:
        return body.decode(errors="replace")


@asynccontextmanager
async def producing(producers: Sequence[Producer]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for producer in producers:
            await stack.enter_async_context(producer)
        yield


def share(workers: Sequence[Worker], topics: int) -> list[set[str]] | None:
    """Which topics run where, once all run, each once."""
    shares = [set(worker.running) for worker in workers]
    return shares if sum(map(len, shares)) == topics == len(set().union(*shares)) else None


def caught_up(workers: Sequence[Worker], topic: str) -> bool:
    queues = [queue for worker in workers for queue in worker.queues(topic)]
    return bool(queues) and all(q["state"] == "RUNNING" and q["position"] == q["max_offset"] for q in queues)
