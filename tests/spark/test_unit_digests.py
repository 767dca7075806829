"""A message and its copy have one form, however brokers arrange what they store; whatever differs has another."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.protocol.message import StoredMessage
from replicator.routing.provenance import Stamp
from replicator.routing.queue_map import Queue
from replicator.spark.digests import RUN, CopyForms, Runs, SourceForms

QUEUE = Queue("east-a", 3)
MADE = (b"CLUSTER\x01east", b"MSG_REGION\x01DefaultRegion", b"TRACE_ON\x01true")

_names = st.sampled_from([b"KEYS", b"TAGS", b"UNIQ_KEY", b"n", "ключ".encode()])
_values = st.sampled_from([b"", b"1", b"two words", b"CLUSTER", "値".encode()])
_own = st.dictionaries(_names, _values).map(lambda told: [name + b"\x01" + value for name, value in told.items()])


@st.composite
def _sources(draw: st.DrawFn) -> list[StoredMessage]:
    """Some of one queue, as brokers of any version store them."""
    made = draw(st.sampled_from([(), MADE[:1], MADE]))
    ended = draw(st.sampled_from([b"\x02", b""]))
    first = draw(st.integers(0, 3 * RUN))
    messages = []
    for offset, own in enumerate(draw(st.lists(_own, min_size=1, max_size=8)), start=first):
        parts = draw(st.permutations([*own, *made])) if draw(st.booleans()) else [*own, *made]
        messages.append(_message(offset, b"\x02".join(parts) + (ended if parts else b"")))
    return messages


def _message(offset: int, raw: bytes, *, body: bytes = b"\0\0\0\1x") -> StoredMessage:
    return StoredMessage(offset, 7, 1, 5, 1_700_000_000_000 + offset, 0, 0, body, raw)


def _copies(messages: Sequence[StoredMessage]) -> list[StoredMessage]:
    """As the target stores what the sink sends."""
    stamped = Stamp("east", *QUEUE).put(messages)
    return [
        msgspec.structs.replace(
            message, queue_offset=100 + at, store_timestamp=9, properties=raw + b"\x02".join(MADE) + b"\x02"
        )
        for at, (message, raw) in enumerate(zip(messages, stamped, strict=True))
    ]


def _forms_of_copies(copies: Sequence[StoredMessage]) -> list[bytes]:
    return CopyForms("east", QUEUE, start=0).of(copies).forms


@given(_sources(), st.randoms())
def test_a_copy_has_the_form_of_its_message(messages: list[StoredMessage], random: object) -> None:
    """In one chunk or several, and where the target's broker has put all properties in another order."""
    wanted = SourceForms("east").of(messages)
    copies = _copies(messages)
    assert _forms_of_copies(copies) == wanted
    one_by_one = CopyForms("east", QUEUE, start=0)
    assert [form for copy in copies for form in one_by_one.of([copy]).forms] == wanted
    shuffled = []
    for copy in copies:
        parts = copy.properties.rstrip(b"\x02").split(b"\x02")
        random.shuffle(parts)  # type: ignore[attr-defined]
        shuffled.append(msgspec.structs.replace(copy, properties=b"\x02".join(parts)))
    assert _forms_of_copies(shuffled) == wanted


@pytest.mark.parametrize(
    "changed",
    [
        {"body": b"\0\0\0\1y"},
        {"flag": 8},
        {"sys_flag": 0},
        {"reconsume_times": 1},
        {"properties": b"KEYS\x01other\x02"},
        {"properties": b""},
        {"store_timestamp": 1},
        {"queue_offset": 6},
    ],
    ids=str,
)
def test_what_differs_has_another_form(changed: dict[str, object]) -> None:
    """Each single thing that a copy must keep."""
    message = _message(5, b"KEYS\x01k\x02")
    other = msgspec.structs.replace(message, **changed)
    assert SourceForms("east").of([message]) != _forms_of_copies(_copies([other]))


def test_a_copy_of_a_copy_keeps_its_origin() -> None:
    """Its own provenance is that of this hop."""
    message = _message(5, b"__RPL_ORIGIN\x01north\x02__RPL_SOURCE\x01north/n-a/0/9/1\x02KEYS\x01k\x02")
    (raw,) = Stamp("east", *QUEUE).renew([message])
    copy = msgspec.structs.replace(message, queue_offset=1, properties=raw)
    assert _forms_of_copies([copy]) == SourceForms("east").of([message])
    assert _forms_of_copies([copy]) != SourceForms("east").of([_message(5, b"KEYS\x01k\x02")])


@pytest.mark.parametrize(
    "source",
    ["east/east-a/3/5", "east/east-a/3/five/1", "east/east-a/3//1", "east/east-a/4/5/1", "west/east-a/3/5/1"],
)
def test_what_is_no_copy_of_the_queue(source: str) -> None:
    """Somebody else's, or broken."""
    found = CopyForms("east", QUEUE, start=0).of(
        [_message(0, f"__RPL_ORIGIN\x01east\x02__RPL_SOURCE\x01{source}\x02".encode())]
    )
    assert (found.messages, found.offsets, found.forms, len(found.others)) == ([], [], [], 1)


def test_what_lies_before_the_start_is_left_out() -> None:
    """It cannot be compared with anything."""
    copies = _copies([_message(offset, b"KEYS\x01k\x02") for offset in range(4)])
    assert CopyForms("east", QUEUE, start=2).of(copies).offsets == [2, 3]


def test_runs_are_of_source_offsets() -> None:
    """However many come at a time, and the order counts."""
    offsets = list(range(RUN - 2, 2 * RUN + 2))
    forms = [b"%d" % offset for offset in offsets]
    at_once, singly, turned = Runs(), Runs(), Runs()
    at_once.add(offsets, forms)
    for offset, form in zip(offsets, forms, strict=True):
        singly.add([offset], [form])
    turned.add(offsets[::-1], forms[::-1])
    assert list(at_once) == [0, 1, 2]
    assert at_once.messages == turned.messages == RUN + 4
    assert [at_once.of(run) for run in (0, 1, 2, 3)] == [singly.of(run) for run in (0, 1, 2, 3)]
    assert at_once.digest([0, 1]) == singly.digest([0, 1])
    assert at_once.of(1)[0] == turned.of(1)[0]
    assert at_once.of(1) != turned.of(1)
