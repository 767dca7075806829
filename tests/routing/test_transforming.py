"""Transformed messages in batches: in order, each settled once, and what is refused comes alone."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.protocol.message import StoredMessage
from replicator.routing.batcher import Batch, Batcher
from replicator.routing.budget import MemoryBudget
from replicator.routing.channel import Channel, Chunk
from replicator.routing.faults import TransformRefused
from replicator.routing.options import Transform
from replicator.routing.packing import Packer
from replicator.routing.provenance import Stamp, read
from replicator.routing.queue_map import Queue
from replicator.routing.transforming import Transforming

SOURCE = Queue("a", 0)


def message(offset: int, body: bytes = b"x") -> StoredMessage:
    return StoredMessage(offset, 0, 0, 1, 2, 0, 3, len(body).to_bytes(4) + body, b"KEYS\x01k\x02")


def chunk(offsets: list[int], end: int) -> Chunk:
    return Chunk([message(offset) for offset in offsets], end, 10, copies=False)


def seen(chunks: list[Chunk], transform: Transform, *, most: int = 1000) -> tuple[Channel, Batcher, Transforming]:
    channel = Channel(MemoryBudget(10**6))
    for each in chunks:
        channel.put(each)
    packer = Packer(Stamp("east", *SOURCE), topic="T", limit=10**6, max_messages=most, exact_born=False)
    batcher = Batcher(channel, packer, transformed=True)
    return channel, batcher, Transforming(transform, "T", SOURCE, ahead=most)


def sent_offsets(batch: Batch) -> list[int]:
    return [offset for pack in batch.packs for offset in pack.offsets]


@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from("kkkdr")), max_size=40),
    st.lists(st.integers(0, 6), min_size=1, max_size=8),
    st.sampled_from([1, 3, 1000]),
)
async def test_everything_is_settled_once_and_in_order(
    shapes: list[tuple[int, str]], cuts: list[int], most: int
) -> None:
    """Kept, dropped and refused messages in any order, in pulls of any size."""
    fates: dict[int, str] = {}
    offset = 3
    for distance, fate in shapes:
        offset += distance
        fates[offset] = fate

    def transform(topic: str, source: Queue, stored: StoredMessage) -> StoredMessage | None:
        assert (topic, source) == ("T", SOURCE)
        fate = fates[stored.queue_offset]
        if fate == "r":
            raise TransformRefused("no")
        return stored if fate == "k" else None

    chunks, left = [], list(fates)
    for i in range(len(cuts) + len(fates)):
        part, left = left[: cuts[i % len(cuts)]], left[cuts[i % len(cuts)] :]
        chunks.append(chunk(part, left[0] if left else offset + 1))
    chunks.append(chunk(left, offset + 1))
    channel, batcher, transforming = seen(chunks, transform, most=most)
    sent: list[int] = []
    refused: list[int] = []
    settled, left_out = -1, 0
    while channel.chunks:
        await transforming.see(channel.chunks)
        batch = batcher.take()
        offsets = sent_offsets(batch)
        if batch.packs and batch.packs[0].refused:
            assert len(offsets) == 1
            refused += offsets
        else:
            sent += offsets
        for pack in batch.packs:
            found = read(pack.message().properties)
            assert found is not None
            assert found.offset == pack.offsets[0]
            assert not pack.refused or batch.count == 1
        assert batch.position > settled or not offsets
        settled = batch.position
        left_out += len(batch.left_out)
        assert left_out == sum(fate == "d" and at < settled for at, fate in fates.items())
        assert len(offsets) <= most
        assert all(at < settled for at in sent + refused)
    assert sent == [at for at, fate in fates.items() if fate == "k"]
    assert refused == [at for at, fate in fates.items() if fate == "r"]
    assert settled == offset + 1


async def test_a_refused_message_is_as_it_was() -> None:
    """A dead letter shows what the source has; the others are changed."""

    def transform(topic: str, source: Queue, stored: StoredMessage) -> StoredMessage | None:
        if stored.queue_offset == 1:
            raise TransformRefused("no", hint="fix it")
        return message(stored.queue_offset, b"changed")

    channel, batcher, transforming = seen([chunk([0, 1, 2], 3)], transform)
    await transforming.see(channel.chunks)
    batches = [batcher.take() for _ in range(3)]
    packs = [pack for batch in batches for pack in batch.packs]
    assert [pack.refused for pack in packs] == ["", "no: fix it", ""]
    assert [pack.message().body[4:] for pack in packs] == [b"changed", b"x", b"changed"]
    assert [batch.position for batch in batches] == [1, 2, 3]


async def test_what_comes_meanwhile_waits_for_its_turn() -> None:
    """A chunk that transforms have not seen is not sent, and none is seen twice."""
    calls: list[int] = []

    def transform(topic: str, source: Queue, stored: StoredMessage) -> StoredMessage | None:
        calls.append(stored.queue_offset)
        return stored

    channel, batcher, transforming = seen([chunk([0, 1], 2)], transform, most=2)
    await transforming.see(channel.chunks)
    channel.put(chunk([2], 3))
    channel.put(chunk([3], 4))
    channel.put(chunk([4], 5))
    assert batcher.take().count == 2
    await transforming.see(channel.chunks)
    assert calls == [0, 1, 2, 3]  # as many as a batch may hold
    await transforming.see(channel.chunks)
    assert sent_offsets(batcher.take()) == [2, 3]
    await transforming.see(channel.chunks)
    assert calls == [0, 1, 2, 3, 4]


async def test_others_get_their_turn_while_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow transform holds up heartbeats for no longer than one message takes, and a little."""
    spent, turns = 0.0, 0

    def transform(topic: str, source: Queue, stored: StoredMessage) -> StoredMessage | None:
        nonlocal spent
        spent += 0.006
        return stored

    def turn() -> None:
        nonlocal turns
        turns += 1
        if turns < 60:
            loop.call_soon(turn)

    monkeypatch.setattr("replicator.routing.transforming.time", SimpleNamespace(monotonic=lambda: spent))
    loop = asyncio.get_running_loop()
    channel, _, transforming = seen([chunk(list(range(100)), 100)], transform)
    turn()
    await transforming.see(channel.chunks)
    assert turns > 40
