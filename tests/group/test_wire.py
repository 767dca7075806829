"""What workers write to system topics: told as meant, whatever else stands there is refused."""

from __future__ import annotations

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.group.membership import Generation, Heartbeat, MemberState
from replicator.group.wire import NewerForm, Unreadable, read_message, write_heartbeat, write_records
from replicator.state.record import Kind, Record, Version
from replicator.state.shared_state import SharedState

NAMES = st.text(max_size=8)
JSON = st.none() | st.dictionaries(NAMES, st.integers(-(2**53), 2**53) | NAMES | st.lists(st.integers(0, 9)))
RECORDS = st.builds(Record, st.sampled_from(Kind), NAMES, st.builds(Version, st.integers(0, 2**53), NAMES), JSON)


@given(st.lists(RECORDS, max_size=20), NAMES)
def test_records_are_read_as_written(records: list[Record], group: str) -> None:
    told = [read_message(body) for body in write_records(group, "w", records)]
    assert [record for envelope in told for record in envelope.records] == records
    assert {(envelope.group, envelope.worker, envelope.heartbeat) for envelope in told} <= {(group, "w", None)}


@given(NAMES, st.integers(0, 2**60), st.sampled_from(MemberState), st.integers(0, 2**60), st.frozensets(NAMES))
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
    )
    assert read_message(write_heartbeat("g", heartbeat)).heartbeat == heartbeat


def test_much_is_told_in_several_messages_each_small() -> None:
    records = [Record(Kind.OFFSET, f"k{i}", Version(i, "w"), {"a": "x" * 1000}) for i in range(3000)]
    bodies = list(write_records("g", "w", records))
    assert len(bodies) > 3
    assert max(map(len, bodies)) < 64 * 1024
    assert [record for body in bodies for record in read_message(body).records] == records


@given(st.binary(max_size=200))
def test_garbage_is_unreadable(body: bytes) -> None:
    with pytest.raises((Unreadable, NewerForm)):
        read_message(body)


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"version":1}',
        b'{"version":1,"group":"g","worker":"w","records":[["nothing","k",[1,"w"],{}]]}',
        b'{"version":1,"group":"g","worker":"w","heartbeat":{"sequence":"x"}}',
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
