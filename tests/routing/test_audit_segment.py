"""Checksums of segments: they depend on every byte and on the order, not on how it was cut into batches."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from replicator.protocol.message import StoredMessage
from replicator.routing.audit_segment import SEGMENT, Segment
from replicator.routing.packing import Pack, Packer
from replicator.routing.provenance import Stamp

MESSAGES = [StoredMessage(i, 7, 0, 5, 9, 0, 1, b"\0\0\0\2b%d" % (i % 10), b"KEYS\x01%d\x02" % i) for i in range(40)]


def packs(messages: list[StoredMessage], most: int = 1000) -> list[Pack]:
    packer = Packer(Stamp("east", "a", 0), topic="T", limit=10**7, max_messages=most, exact_born=False)
    return packer.pack(messages, copies=False)


def segment(messages: list[StoredMessage], *sizes: int, before: int = 0, start: int = 100) -> Segment:
    made = Segment(messages[0].queue_offset, start, since=0.0, checked=True, sampled=True, before=before)
    for size in sizes or (len(messages),):
        if messages[:size]:
            made.add(packs(messages[:size]), messages[:size][-1].queue_offset + 1)
        messages = messages[size:]
    return made


def sums(found: Segment) -> tuple[int, int, int, int]:
    return found.crc, found.headers, found.size, len(found)


@given(st.lists(st.integers(1, 20), min_size=4, max_size=8))
def test_batches_of_any_size(sizes: list[int]) -> None:
    """They give the same."""
    count = min(40, sum(sizes))
    assert sums(segment(MESSAGES[:count], *sizes)) == sums(segment(MESSAGES[:count]))


@given(
    st.integers(0, 39),
    st.sampled_from(["body", "flag", "properties", "sys_flag", "reconsume_times", "store_timestamp"]),
)
def test_every_part_counts(at: int, part: str) -> None:
    """Also what a batch has once, and the provenance."""
    before = getattr(MESSAGES[at], part)
    after = before[:-1] + bytes([before[-1] ^ 1]) if isinstance(before, bytes) else before ^ 1
    changed = [*MESSAGES]
    changed[at] = msgspec.structs.replace(MESSAGES[at], **{part: after})
    assert sums(segment(changed))[:2] != sums(segment(MESSAGES))[:2]


def test_order_counts() -> None:
    """Two messages that change places."""
    swapped = [MESSAGES[1], MESSAGES[0], *MESSAGES[2:]]
    assert segment(swapped).crc != segment(MESSAGES).crc


def test_two_become_one() -> None:
    """What follows goes on from the checksum before it, so both together have that of a single one."""
    one = segment(MESSAGES[:15])
    two = segment(MESSAGES[15:], before=one.crc, start=115)
    assert one.is_followed_by(two)
    one.extend(two)
    assert sums(one) == sums(segment(MESSAGES))
    assert (one.source, one.source_end, one.start, one.end) == (0, 40, 100, 140)


def test_what_does_not_become_one() -> None:
    """Messages of others in between, another checksum, or too many."""
    one = segment(MESSAGES[:15])
    assert not one.is_followed_by(segment(MESSAGES[15:], before=one.crc, start=116))
    assert not one.is_followed_by(segment(MESSAGES[15:], before=1, start=115))
    two = segment(MESSAGES[15:], before=one.crc, start=115)
    two.end = 115 + SEGMENT
    assert not one.is_followed_by(two)
    assert two.is_full


def test_what_is_not_sampled_costs_nothing() -> None:
    """It has its range alone."""
    made = Segment(0, 0, since=0.0, checked=True, sampled=False, before=5)
    made.add(packs(MESSAGES), 40)
    assert (sums(made), made.end, made.source_end, made.pulls) == ((5, 0, 0, 40), 40, 40, 2)
