"""What workers write to system topics: told as meant, whatever else stands there is refused."""

from __future__ import annotations

import itertools
import json
import time
import tracemalloc
import zlib
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.group.freshness import Echo
from replicator.group.membership import Generation, Heartbeat, MemberState
from replicator.group.wire import (
    Author,
    NewerForm,
    Unreadable,
    group_of,
    read_message,
    write_heartbeat,
    write_records,
)
from replicator.state.record import Kind, Record, Version
from replicator.state.shared_state import SharedState
from tests.support.records import RECORDS, VALUES

NAMES = st.text("abcxyz_.:@-", max_size=8)


def written(group: str, records: Iterable[Record]) -> list[bytes]:
    return list(write_records(Author(group, "w", "i"), itertools.count(1), records))


@given(st.lists(RECORDS, max_size=20), NAMES)
def test_records_are_read_as_written(records: list[Record], group: str) -> None:
    told = [read_message(body) for body in written(group, records)]
    assert [record for envelope in told for record in envelope.records()[0]] == records
    authors = {(envelope.group, envelope.worker, envelope.incarnation, envelope.heartbeat) for envelope in told}
    assert authors <= {(group, "w", "i", None)}
    assert [envelope.counter for envelope in told] == [*range(1, len(told) + 1)]


@given(NAMES, st.integers(0, 2**60), st.sampled_from(MemberState), st.integers(0, 2**48), st.frozensets(NAMES))
def test_heartbeats_are_read_as_written(
    worker: str, sequence: int, stage: MemberState, number: int, releasing: frozenset[str]
) -> None:
    heartbeat = Heartbeat(
        worker=worker,
        incarnation="i",
        sequence=sequence,
        stage=stage,
        generation=Generation(number, worker),
        releasing=releasing,
        info={"tasks": {"t": "running"}},
        echo=Echo("a", sequence),
    )
    assert read_message(write_heartbeat("g", heartbeat)).heartbeat == heartbeat
    assert group_of(write_heartbeat("g", heartbeat)) == "g"


def test_much_is_told_in_several_messages_each_small() -> None:
    value = {"topics": [], "problems": {"orders": "x" * 1000}}
    records = [Record(Kind.STATUS, f"k{i}", Version(i, "w"), value) for i in range(3000)]
    bodies = written("g", records)
    assert len(bodies) > 3
    assert max(map(len, bodies)) < 64 * 1024
    assert [record for body in bodies for record in read_message(body).records()[0]] == records


@given(st.binary(max_size=200))
def test_garbage_is_unreadable(body: bytes) -> None:
    with pytest.raises((Unreadable, NewerForm)):
        read_message(body)


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"version":1}',
        b'{"version":1,"group":"g","worker":"w","heartbeat":{"sequence":"x"}}',
        b'{"version":1,"group":"g","worker":"a\x1b[2J"}',
        b"[" * 100_000,
        zlib.compress(b"[" * 100_000),
        zlib.compress(b'{"version":1,"group":"g","worker":"w"}')[:-5],
        zlib.compress(b" " * (64 * 1024 * 1024 + 1)),
    ],
)
def test_what_no_worker_wrote_is_unreadable(body: bytes) -> None:
    with pytest.raises(Unreadable):
        read_message(body)


def test_a_later_form_is_told_apart() -> None:
    with pytest.raises(NewerForm, match="newer version") as caught:
        read_message(json.dumps({"version": 2, "anything": ["else"]}).encode())
    assert "upgrade" in caught.value.hint


@given(st.lists(RECORDS, max_size=30), st.randoms())
def test_the_order_of_records_makes_no_difference(records: list[Record], dice: object) -> None:
    unique = list({(r.kind, r.key, r.version): r for r in records}.values())
    one, other = SharedState("a"), SharedState("b")
    for record in unique:
        one.merge(record)
    shuffled = unique * 2
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    for record in shuffled:
        other.merge(record)
    for kind in Kind:
        assert one.items(kind) == other.items(kind)
    later = one.put(Kind.TASK, "k", {"mine": 1})
    assert other.merge(later)


def beat(**changes: Any) -> bytes:
    said = {
        "incarnation": "i",
        "sequence": 1,
        "stage": "online",
        "generation": [0, ""],
        "releasing": [],
        "info": {},
    }
    return json.dumps({"version": 1, "group": "g", "worker": "w", "heartbeat": said | changes}).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"generation": [2**63 - 1, "evil"]},
        {"generation": [2**64, ""]},
        {"sequence": -1},
        {"info": {"tasks": 5}},
        {"info": {"tasks": {"t": 5}}},
        {"info": {"rest": 5}},
        {"info": {"view": 7}},
        {"info": {"version": {"a": 1}}},
        {"info": {"topics": "orders"}},
        {"releasing": ["x" * 1001]},
        {"echo": ["a", -1]},
    ],
)
def test_heartbeats_of_another_form_are_unreadable(changes: dict[str, Any]) -> None:
    assert read_message(beat()).heartbeat is not None
    with pytest.raises(Unreadable):
        read_message(beat(**changes))


def test_a_record_that_does_not_fit_is_left_out_alone() -> None:
    """Whatever else is in the message is read; of a kind that a later version has, too."""
    key, value = VALUES[Kind.TASK]
    records = [
        ["assignment", "", [10**9, "evil"], {}],
        ["task", "route/orders", [10**9, "evil"], {"queues": 5}],
        ["new-kind", "k", [1, "w"], {}],
        ["position", "k", [2**64, "w"], None],
        5,
        ["task", key, [3, "w"], value],
    ]
    body = json.dumps({"version": 1, "group": "g", "worker": "w", "records": records}).encode()
    found, skipped = read_message(body).records()
    assert found == [Record(Kind.TASK, key, Version(3, "w"), value)]
    assert [each.key for each in skipped] == [
        "assignment ",
        "task route/orders",
        "new-kind k",
        "position k",
        "",
    ]


@pytest.mark.parametrize("size", [15_000_000, 40_000_000], ids=["values", "bytes"])
@pytest.mark.parametrize("item", [b'["position","r/t/b/0",[1,"w"],{"position":1,"start":0}]', b"0", b"[]", b"[[]]"])
def test_a_bomb_costs_little_memory(item: bytes, size: int) -> None:
    """A message of at most 4 MiB may be 1,000 times as large when it is decompressed, and each byte a value."""
    items = ((item + b",") * (size // len(item)))[:-1]  # a join takes 80 bytes for each of them
    bomb = zlib.compress(b'{"version":1,"group":"g","worker":"w","records":[%b]}' % items)
    del items
    tracemalloc.start()
    began = time.thread_time()
    with pytest.raises(Unreadable):
        read_message(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * 1024**2
    assert time.thread_time() - began < 2


@pytest.mark.parametrize(
    "item", [b"0", b'["a","",0,[]]', b'["position","r/t/b/0",[1,"w"],{"position":1,"start":0}]']
)
def test_the_most_that_is_read_costs_a_bounded_amount(item: bytes) -> None:
    count = 290_000 // sum(map(item.count, (b",", b"[", b"{", b"0")))
    body = b'{"version":1,"group":"g","worker":"w","records":[%b]}' % b",".join([item] * count)
    tracemalloc.start()
    found, skipped = read_message(zlib.compress(body)).records()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) + len(skipped) == count
    assert peak < 128 * 1024**2
