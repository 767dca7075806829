"""The null broker answers what it takes for itself as a broker would, and passes all else on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest

from bench.null_broker import NullBroker, compiled
from replicator.client.brokers import max_offset
from replicator.client.endpoint import Endpoint
from replicator.client.pull import pull
from replicator.client.security import Security
from replicator.client.send import new_fields, send_batch
from replicator.protocol.batch import new_entry
from replicator.protocol.uniform_run import COMPILED, UniformRun
from tests.client.peer import Peer, unused_port
from tests.support.worker import until

EACH, SIZE = 100, 300


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("null"))


@asynccontextmanager
async def standing(
    program: Path, side: Literal["source", "target"], log: Path
) -> AsyncIterator[tuple[NullBroker, Endpoint, Peer]]:
    """Before a broker that answers everything with nothing."""
    port = unused_port()
    before = [(f"127.0.0.2:{port}", f"127.0.0.1:{port}")]
    async with Peer(lambda session, request: session.answer(request, fields={"offset": "7"}), port=port) as peer:
        null = NullBroker(program, side, before, prefix="null-", each=EACH, size=SIZE, log=log)
        endpoint = Endpoint(before[0][0], Security())
        try:
            await null.ready()
            yield null, endpoint, peer
        finally:
            await endpoint.close()
            await null.process.stopped()


async def test_a_source_has_its_messages_once_it_is_opened(program: Path, tmp_path: Path) -> None:
    """Pulls wait until then, for their time; afterwards each queue ends where it should."""
    async with standing(program, "source", tmp_path / "log") as (null, endpoint, peer), asyncio.timeout(30):
        assert await max_offset(endpoint, "null-t", 3) == 0
        assert (await pull(endpoint, "null-t", 3, 0)).messages == []
        waiting = [asyncio.create_task(pull(endpoint, "null-t", queue, 0, suspend=20.0)) for queue in (3, 4)]
        await until(lambda: null.held == (2, 1), what="both wait")
        null.open()
        for queue, pulled in zip((3, 4), await asyncio.gather(*waiting), strict=True):
            assert isinstance(pulled.messages, UniformRun) == COMPILED
            assert [message.queue_offset for message in pulled.messages] == list(range(32)), queue
            assert {message.content for message in pulled.messages} == {b"." * SIZE}
            assert not any(message.is_damaged for message in pulled.messages)
            assert (pulled.next_offset, pulled.min_offset, pulled.max_offset) == (32, 0, EACH)
        last = await pull(endpoint, "null-t", 3, 96, suspend=20.0)
        assert [message.queue_offset for message in last.messages] == [96, 97, 98, 99]
        assert await max_offset(endpoint, "null-t", 3) == EACH
        assert peer.sessions[0].requests == []


async def test_a_target_counts(program: Path, tmp_path: Path) -> None:
    async with standing(program, "target", tmp_path / "log") as (null, endpoint, peer), asyncio.timeout(30):
        entries = [new_entry(b"x" * size, b"KEYS\x01k\x02") for size in (0, 10, 3000)]
        assert (await send_batch(endpoint, new_fields("null-t", 2), entries)).offset == 0
        assert (await send_batch(endpoint, new_fields("null-t", 2), entries[:1])).offset == 3
        assert (await send_batch(endpoint, new_fields("null-t", 5), entries)).offset == 0
        assert [await max_offset(endpoint, "null-t", queue) for queue in (2, 5, 6)] == [4, 3, 0]
        await until(lambda: [each.messages for each in null.stored][-1:] == [7], what="it says so")
        assert peer.sessions[0].requests == []


@pytest.mark.parametrize("side", ["source", "target"])
async def test_all_else_is_the_brokers(program: Path, tmp_path: Path, side: Literal["source", "target"]) -> None:
    """Other topics, other requests; many at a time, and larger ones than it reads at once."""
    async with standing(program, side, tmp_path / "log") as (_, endpoint, peer), asyncio.timeout(30):
        found = await asyncio.gather(*(max_offset(endpoint, "others", queue) for queue in range(200)))
        assert found == [7] * 200
        body = bytes(3 << 20)
        answer = await endpoint.invoke(25, {"x": "y"}, body=[body], timeout=20)
        assert answer.code == 0
        assert peer.sessions[0].requests[-1].body == body
