"""Batches: what may share a request does, within the limits, and positions are right whatever was left out."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from replicator.protocol.batch import KEPT_SYS_FLAGS, unpack
from replicator.protocol.message import StoredMessage
from replicator.protocol.properties import MAX_PROPERTIES, find
from replicator.routing.batcher import Batch, Batcher
from replicator.routing.budget import MemoryBudget
from replicator.routing.channel import Channel, Chunk
from replicator.routing.packing import Packer
from replicator.routing.provenance import Provenance, Stamp, read

TOPIC = "topic"
#: What a broker stores beyond the entry of a batch: hosts, offsets, timestamps and its own properties.
STORED_MORE = 91 + len(TOPIC)


def message(
    offset: int,
    *,
    size: int = 10,
    sys_flag: int = 0,
    times: int = 0,
    born: int = 1,
    properties: bytes = b"KEYS\x01k\x02",
) -> StoredMessage:
    body = size.to_bytes(4) + b"x" * size
    return StoredMessage(offset, 7, sys_flag, born, 2, times, 3, body, properties)


def chunk(messages: list[StoredMessage], next_offset: int) -> Chunk:
    return Chunk(messages, next_offset, sum(len(m.body) for m in messages) + 1, copies=False)


@dataclass
class Setup:
    channel: Channel
    budget: MemoryBudget
    batcher: Batcher


def setup(
    chunks: list[Chunk], *, limit: int = 10**6, most: int = 1000, exact: bool = False, early: bool = True
) -> Setup:
    packer = Packer(Stamp("east", "a", 0), topic=TOPIC, limit=limit, max_messages=most, exact_born=exact)
    budget = MemoryBudget(10**9)
    channel = Channel(budget, packer if early else None)
    for each in chunks:
        budget.charge(each.size)
        channel.put(each)
    return Setup(channel, budget, Batcher(channel, packer))


def offsets(batch: Batch) -> list[int]:
    return [offset for pack in batch.packs for offset in pack.offsets]


def alone(batch: Batch) -> list[StoredMessage]:
    """Each message of it, as if the target had refused all others with it."""
    if batch.count > 1:
        first, second = batch.halves()
        return alone(first) + alone(second)
    return [pack.message() for pack in batch.packs]


def stored_size(batch: Batch) -> int:
    return sum(map(len, batch.body)) + batch.count * STORED_MORE


MESSAGES = st.lists(
    st.tuples(
        st.integers(1, 3),  # distance to the one before: more than 1 where something was filtered out
        st.sampled_from([0, 1, 50, 400, 3000]),  # body
        st.sampled_from([0, 0, 0, 0x1, 0x101, 0x4, 0x30]),  # sysFlag
        st.sampled_from([0, 0, 0, 1]),  # reconsume times
        st.sampled_from([1, 1, 1, 2]),  # born
        st.sampled_from([5, 5, 5, 5, 40_000]),  # properties
    ),
    max_size=30,
)


@given(
    MESSAGES,
    st.lists(st.integers(0, 6), min_size=1, max_size=10),
    st.sampled_from([600, 2000, 10_000]),
    st.sampled_from([1, 3, 1000]),
    st.booleans(),
    st.booleans(),
)
def test_every_message_is_in_one_batch_that_may_hold_it(
    shapes: list[tuple[int, int, int, int, int, int]],
    cuts: list[int],
    limit: int,
    most: int,
    exact: bool,
    early: bool,
) -> None:
    """In order; alike in what a batch has once; within the limits unless alone; positions tell what is settled."""
    messages, offset = [], 4
    for distance, size, sys_flag, times, born, length in shapes:
        offset += distance
        properties = b"k\x01" + b"v" * length + b"\x02"
        messages.append(
            message(offset, size=size, sys_flag=sys_flag, times=times, born=born, properties=properties)
        )
    chunks, left = [], list(messages)
    for i in range(len(cuts) + len(messages)):
        part, left = left[: cuts[i % len(cuts)]], left[cuts[i % len(cuts)] :]
        end = left[0].queue_offset if left else offset + 2
        chunks.append(chunk(part, end))
    chunks.append(chunk(left, offset + 2))
    made = setup(chunks, limit=limit, most=most, exact=exact, early=early)
    held, taken, settled = 0, 0, -1
    while made.channel.chunks:
        batch = made.batcher.take()
        assert batch.packs or batch.position > settled or batch.held
        sent = messages[taken : taken + batch.count]
        assert offsets(batch) == [m.queue_offset for m in sent]
        assert [stored for pack in batch.packs for stored in pack.stored] == [m.store_timestamp for m in sent]
        assert [(m.flag, m.body) for m in alone(batch)] == [(m.flag, m.body) for m in sent]
        taken += batch.count
        rest = messages[taken:]
        assert settled <= batch.position
        assert all(m.queue_offset < batch.position for m in messages[:taken])
        assert all(m.queue_offset >= batch.position for m in rest)
        settled = batch.position
        held += batch.held
        made.channel.release(batch.held)
        assert batch.count <= most
        assert len({(m.sys_flag & KEPT_SYS_FLAGS, m.reconsume_times) for m in sent}) <= 1
        assert not exact or len({m.born_timestamp for m in sent}) <= 1
        assert batch.count <= 1 or stored_size(batch) <= limit
        too_long = [m for m in sent if len(m.properties) > MAX_PROPERTIES]
        assert bool(too_long) == any(pack.too_long for pack in batch.packs)
        assert not too_long or batch.count == 1
        for pack in batch.packs:
            first = sent[0]
            assert (pack.sys_flag, pack.reconsume_times) == (first.sys_flag & KEPT_SYS_FLAGS, first.reconsume_times)
    assert taken == len(messages)
    assert settled == offset + 2
    assert held == sum(each.size for each in chunks)
    assert made.budget.used == 0


def test_a_batch_has_no_more_than_is_asked_for() -> None:
    """But what came together, however much that is."""
    made = setup([chunk([message(offset), message(offset + 1)], offset + 2) for offset in range(0, 12, 2)])
    assert [made.batcher.take(messages=most).count for most in (5, 1, 2)] == [4, 2, 2]
    assert made.batcher.take(size=1).count == 2
    assert made.batcher.take().count == 2


def test_what_is_sent_are_entries_with_provenance() -> None:
    """The body, the flag and the checksum of the message."""
    batch = setup([chunk([message(9)], 10)]).batcher.take()
    ((crc, flag, body, properties),) = map(unpack, batch.body)
    assert (crc, flag, body) == (3, 7, message(9).body)
    assert read(properties) == Provenance("east", "east", "a", 0, 9, 2)
    (sent,) = alone(batch)
    assert sent == replace(message(9), properties=properties)


def test_the_size_is_that_of_the_body() -> None:
    """It is what the rate limit and the counter of bytes see; for the halves of a batch too."""
    batch = setup([chunk([message(i) for i in range(5)], 5), chunk([message(5)], 6)]).batcher.take()
    assert batch.count == 6
    halves = batch.halves()
    assert [half.size for half in halves] == [sum(map(len, half.body)) for half in halves]
    assert batch.size == sum(map(len, batch.body)) == sum(half.size for half in halves)


def test_the_byte_limit_counts_messages_of_all_chunks_alike() -> None:
    """Small pulls must not make larger batches than large ones: the target counts what it stores."""
    one = setup([chunk([message(i) for i in range(100)], 100)], limit=5000)
    many = setup([chunk([message(i)], i + 1) for i in range(100)], limit=5000)
    batch = many.batcher.take()
    assert stored_size(batch) <= 5000
    assert offsets(batch) == offsets(one.batcher.take())


def test_messages_share_a_batch_across_chunks() -> None:
    """Up to the number that is allowed; what was packed together is not taken apart for it."""
    made = setup([chunk([message(2 * i), message(2 * i + 1)], 2 * i + 2) for i in range(3)], most=5)
    batch = made.batcher.take()
    assert (offsets(batch), batch.position, len(made.channel.chunks)) == ([0, 1, 2, 3], 4, 1)
    batch = made.batcher.take()
    assert (offsets(batch), batch.position, len(made.channel.chunks)) == ([4, 5], 6, 0)


def test_messages_that_differ_are_split() -> None:
    """By compression, by reconsume times, and by born timestamp only where that is exact."""
    kinds = [message(0), message(1, sys_flag=0x101), message(2, times=2), message(3, times=2, born=9)]
    made = setup([chunk(list(kinds), 4)])
    assert [offsets(made.batcher.take()) for _ in range(3)] == [[0], [1], [2, 3]]
    made = setup([chunk(list(kinds), 4)], exact=True)
    assert [offsets(made.batcher.take()) for _ in range(4)] == [[0], [1], [2], [3]]


def test_transaction_and_host_bits_do_not_split() -> None:
    """They are not sent on."""
    made = setup([chunk([message(0), message(1, sys_flag=0x8), message(2, sys_flag=0x30)], 3)])
    assert offsets(made.batcher.take()) == [0, 1, 2]


def test_a_message_over_the_limit_goes_alone() -> None:
    """The ones before and behind it do not wait for it."""
    made = setup([chunk([message(0), message(1, size=9000), message(2)], 3)], limit=5000)
    assert [offsets(made.batcher.take()) for _ in range(3)] == [[0], [1], [2]]


def test_properties_over_their_limit_go_alone_and_say_so() -> None:
    """A batch cannot hold them; the caller decides."""
    long = message(1, properties=b"k\x01" + b"v" * 40_000 + b"\x02")
    made = setup([chunk([message(0), long], 2), chunk([message(2)], 3)])
    batches = [made.batcher.take() for _ in range(3)]
    assert [offsets(batch) for batch in batches] == [[0], [1], [2]]
    assert [batch.packs[0].too_long > MAX_PROPERTIES for batch in batches] == [False, True, False]
    assert [batch.position for batch in batches] == [1, 2, 3]


def test_filtered_chunks_settle_what_they_cover() -> None:
    """Without a message to send, and together with one."""
    made = setup([chunk([], 40), chunk([], 50)])
    batch = made.batcher.take()
    assert (batch.packs, batch.position, batch.held) == ([], 50, 2)
    made = setup([chunk([], 40), chunk([message(45)], 50), chunk([], 60)])
    batch = made.batcher.take()
    assert (offsets(batch), batch.position) == ([45], 60)


@pytest.mark.parametrize("pulls", [[4], [1, 1, 1, 1], [1, 3], [3, 1]])
def test_the_halves_of_a_batch_settle_one_after_the_other(pulls: list[int]) -> None:
    """The first up to the second's first message, the last up to the end; whatever was pulled together."""
    messages, ends, chunks = [message(at, size=at, born=4) for at in (2, 5, 9, 11)], [5, 9, 11, 20], []
    for count in pulls:
        chunks.append(chunk(messages[:count], ends[count - 1]))
        messages, ends = messages[count:], ends[count:]
    batch = setup(chunks).batcher.take()
    first, second = batch.halves()
    assert offsets(first) + offsets(second) == [2, 5, 9, 11]
    assert (first.position, second.position) == (offsets(second)[0], 20)
    assert (first.held, second.held) == (0, 0)
    assert b"".join(first.body + second.body) == b"".join(batch.body)
    singly = alone(batch)
    assert [(each.queue_offset, each.body_length, each.born_timestamp) for each in singly] == [
        (at, at, 4) for at in (2, 5, 9, 11)
    ]


def test_a_chunk_with_copies_keeps_their_origin() -> None:
    """Also when copies and local messages come mixed."""
    (stamped,) = Stamp("north", "n", 4).put([message(77)])
    copy = message(0, properties=stamped)
    mixed = Chunk([copy, message(1)], 2, 100, copies=True)
    batch = setup([mixed]).batcher.take()
    first, second = (sent.properties for sent in alone(batch))
    assert read(first) == Provenance("north", "east", "a", 0, 0, 2)
    assert read(second) == Provenance("east", "east", "a", 0, 1, 2)
    assert find(first, b"KEYS") == b"k"
