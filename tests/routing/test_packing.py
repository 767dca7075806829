"""Packs: what compiled code makes of a whole answer is what is made of its messages one by one, byte by byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replicator.errors import ProtocolError
from replicator.protocol import uniform_run
from replicator.protocol.batch import size_of, unpack
from replicator.protocol.message import StoredMessage, parse_messages
from replicator.protocol.properties import MAX_PROPERTIES
from replicator.protocol.uniform_run import COMPILED, UniformRun, messages_in, sent_as
from replicator.routing.packing import Packer
from replicator.routing.provenance import PREFIX, Stamp
from tests.protocol.test_message import LAYOUTS, stored

TOPIC = "T"
#: A broker's own bits of sysFlag, which no batch carries: they do not keep messages apart.
TRANSACTION = 0x8

#: What may stand between two 0x02 in properties: ordinary ones, brokers' ones, what only looks like them, and junk.
ITEMS = st.sampled_from(
    [
        *(
            b"",
            b"KEYS\x01k",
            b"TAGS\x01",
            b"no value",
            b"\x01",
            b"\xc3\xa4\x01\xf0\x9f\x90\xb0",
            b"\xff\xfe\x01\xff",
        ),
        *(b"MSG_REGION\x01DefaultRegion", b"TRACE_ON\x01true", b"CLUSTER\x01east", b"CLUSTER\x01", b"CLUSTER"),
        *(b"__CRC32#\x010123456789", b"__CRC32\x01mine"),
        *(b"CLUSTERS\x01x", b"MSG_REGIO\x01x", b"XCLUSTER\x01x", b"KEYS\x01a\x01CLUSTER\x01b"),
    ]
)
LIGHT = st.sampled_from(
    [b"INNER_MULTI_DISPATCH\x01%LMQ%a", b"INNER_MULTI_QUEUE_OFFSET\x017", b"INNER_MULTI_QUEUE_OFFSET\x01"]
)
COPIED = st.sampled_from([b"__RPL_ORIGIN\x01here", b"__RPL_SOURCE\x01east/a/0/3/4", b"__RPL_"])


def properties_of(items: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.builds(
        lambda items, end: b"\x02".join(items) + end, st.lists(items, max_size=7), st.sampled_from([b"\x02", b""])
    )


OWN, PROPERTIES = properties_of(ITEMS), properties_of(st.one_of(ITEMS, COPIED, LIGHT))
#: Bytes of properties that are too long once they have our provenance, and that are just not.
LONG = st.sampled_from([MAX_PROPERTIES - 200, MAX_PROPERTIES - 55, MAX_PROPERTIES - 1]).map(
    lambda size: b"a\x01" + b"x" * (size - 3) + b"\x02"
)


@dataclass(frozen=True)
class Written:
    """What differs between messages of one answer; `step` is how far the offset is from the one before."""

    layout: tuple[int, int, int] = LAYOUTS[0]
    body: bytes = b"body"
    properties: bytes = b"KEYS\x01k\x02CLUSTER\x01east\x02"
    time: int = 1_700_000_000_000
    sys_flag: int = 0
    numbers: tuple[int, int, int] = (7, 1, 0)
    step: int = 1


REGULAR = st.builds(
    Written,
    layout=st.sampled_from(LAYOUTS),
    body=st.binary(max_size=40),
    properties=OWN,
    time=st.integers(0, 2**63 - 1),
    sys_flag=st.sampled_from([0, TRANSACTION]),
)
MESSAGES = st.builds(
    Written,
    layout=st.sampled_from(LAYOUTS),
    body=st.binary(max_size=40),
    properties=st.one_of(PROPERTIES, PROPERTIES, PROPERTIES, LONG),
    time=st.one_of(st.just(0), st.integers(0, 2**63 - 1)),
    sys_flag=st.sampled_from([0, 0, 0, TRANSACTION, 0x1]),
    numbers=st.tuples(
        st.integers(-(2**31), 2**31 - 1), st.sampled_from([1, 1, 1, 2]), st.sampled_from([0, 0, 0, 3])
    ),
    step=st.sampled_from([1, 1, 1, 1, 2]),
)


def answer(messages: Sequence[Written], *, first: int = 5) -> bytes:
    data, offset = b"", first - 1
    for each in messages:
        magic, born, store = each.layout
        offset += each.step
        data += stored(
            body=each.body,
            properties=each.properties,
            offset=offset,
            sys_flag=each.sys_flag | born | store,
            magic=magic,
            time=each.time,
            numbers=each.numbers,
        )
    return data


def packed(messages: Sequence[StoredMessage], *, limit: int, most: int = 1000, exact: bool = False) -> list[object]:
    """All that there is to know of the packs."""
    packer = Packer(Stamp("east", "a", 0), topic=TOPIC, limit=limit, max_messages=most, exact_born=exact)
    if isinstance(messages, UniformRun):
        copies = messages.mention(PREFIX)
    else:
        copies = any(PREFIX in each.properties for each in messages)
    return [
        (
            pack.data,
            *pack.offsets,
            *pack.stored,
            pack.sys_flag,
            pack.reconsume_times,
            pack.born_timestamp,
            pack.too_long,
        )
        for pack in packer.pack(messages, copies=copies)
    ]


def test_it_is_compiled() -> None:
    """Else the other tests here compare a thing with itself."""
    assert COMPILED


@given(
    st.one_of(st.lists(REGULAR, min_size=1, max_size=8), st.lists(MESSAGES, min_size=1, max_size=8)),
    st.integers(0, 2**62),
    st.sampled_from([200, 1_000, 2_000, 4_000, 10**7]),
    st.sampled_from([1, 3, 1000]),
    st.booleans(),
)
@example([Written()] * 5, 0, 10**7, 1000, False)
@example([Written(time=2**63 - 1)], 2**62, 10**7, 1000, True)
def test_the_same_comes_out(messages: list[Written], first: int, limit: int, most: int, exact: bool) -> None:
    """Of every layout, properties of all kinds, with gaps, differences and limits anywhere."""
    data = answer(messages, first=first)
    one_by_one = packed(parse_messages(data), limit=limit, most=most, exact=exact)
    assert packed(messages_in(data), limit=limit, most=most, exact=exact) == one_by_one


@given(st.integers(1, 40), st.integers(-3, 3))
def test_limits_hold_to_the_byte(count: int, off: int) -> None:
    """What fits exactly is one pack, and two if it is one byte more, or if one message more is allowed for."""
    data = answer([Written()] * count)
    packer = Packer(Stamp("east", "a", 0), topic=TOPIC, limit=10**7, max_messages=1000, exact_born=False)
    (whole,) = packer.pack(parse_messages(data), copies=False)
    limit = len(whole.data) + count * packer.more + off
    found = messages_in(data)
    assert isinstance(found, UniformRun)
    taken = packed(found, limit=limit)
    assert taken == packed(parse_messages(data), limit=limit)
    fits = off >= 0 or count == 1
    assert (len(taken), found._cut is None) == ((1, True) if fits else (2, False))


def test_messages_in_light_queues_are_alone() -> None:
    """Without the offsets that they have there at the source; those that are in none share a pack."""
    queues, offsets = b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02", b"INNER_MULTI_QUEUE_OFFSET\x017\x02"
    blank = b"INNER_MULTI_DISPATCH\x01\x02"
    own = [b"KEYS\x01k\x02", b"", queues + offsets, offsets + queues, queues, blank + offsets]
    data = answer([Written(properties=each) for each in own])
    packer = Packer(Stamp("east", "a", 0), topic=TOPIC, limit=10**7, max_messages=1000, exact_born=False)
    for messages in (messages_in(data), parse_messages(data)):
        packs = packer.pack(messages, copies=False)
        assert [(len(pack), pack.light, pack.alone) for pack in packs] == [
            *((2, False, False), (1, True, True), (1, True, True), (2, False, False))
        ]
        assert not any(b"INNER_MULTI_QUEUE_OFFSET" in pack.data for pack in packs)
        assert packs[1].message().properties.endswith(b"\x02" + queues)


@pytest.mark.parametrize("off", [-1, 0, 1])
def test_properties_as_long_as_they_may_be(off: int) -> None:
    """With provenance in front they just fit, or do not, and then no request can hold them."""
    lead = len(Stamp("east", "a", 0).lead + b"5/1700000000000\x02\x02")
    message = Written(properties=b"a\x01" + b"x" * (MAX_PROPERTIES - lead - 2 + off) + b"\x02")
    data = answer([message, message])
    found = messages_in(data)
    assert isinstance(found, UniformRun)
    assert packed(found, limit=10**7) == packed(parse_messages(data), limit=10**7)
    assert (found._cut is None) == (off <= 0)


@given(st.lists(MESSAGES, min_size=1, max_size=4), st.data())
def test_broken_answers_are_refused_alike(messages: list[Written], more: st.DataObject) -> None:
    """Any bytes changed, any end cut off: the same messages, or the same error."""
    data = bytearray(answer(messages))
    for _ in range(more.draw(st.integers(0, 3))):
        data[more.draw(st.integers(0, len(data) - 1))] = more.draw(st.integers(0, 255))
    broken = bytes(data[: more.draw(st.integers(0, len(data)))])
    try:
        expected = parse_messages(broken)
    except ProtocolError as error:
        with pytest.raises(ProtocolError, match="^" + str(error).replace("(", r"\(")):
            messages_in(broken)
    else:
        assert list(messages_in(broken)) == expected
        if expected:
            assert packed(messages_in(broken), limit=10**7) == packed(expected, limit=10**7)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_alike_is_not_cut(layout: tuple[int, int, int]) -> None:
    """Until somebody looks; hosts, transaction bits and born timestamps may differ."""
    data = answer([Written(layout=layout), Written(sys_flag=TRANSACTION), Written(numbers=(1, 9, 0))])
    found = messages_in(data)
    assert isinstance(found, UniformRun)
    assert (len(found), found.offset, found.same_born, found.born_timestamp) == (3, 5, False, 1)
    assert packed(found, limit=10**7)
    assert found._cut is None
    assert list(found) == parse_messages(data)
    assert found[1] == parse_messages(data)[1]


@pytest.mark.parametrize(
    "second",
    [Written(step=2), Written(sys_flag=0x1), Written(numbers=(7, 1, 1))],
    ids=["gap", "compressed", "consumed again"],
)
def test_what_differs_is_not_alike(second: Written) -> None:
    """A gap has to be seen, and a batch says once what is compressed and how often it was consumed."""
    assert not isinstance(messages_in(answer([Written(), second])), UniformRun)


@pytest.mark.parametrize("messages", [[Written(time=2**63)], [Written(), Written(time=2**64 - 1)]])
def test_a_time_that_no_clock_shows_is_refused(messages: list[Written]) -> None:
    """By both ways: no counter, record or request has room for it."""
    for read in (messages_in, parse_messages):
        with pytest.raises(ProtocolError, match="the store timestamp"):
            read(answer(messages))


def test_more_than_it_has_room_for_goes_one_by_one() -> None:
    """A large body, and more messages than brokers ever give."""
    for messages in ([Written(body=bytes(2**20))], [Written()] * 1025):
        found = messages_in(answer(messages))
        assert isinstance(found, UniformRun)
        assert found.entries(b"lead", more=1, limit=10**8) is None
        assert packed(found, limit=10**8, most=2000) == packed(
            parse_messages(answer(messages)), limit=10**8, most=2000
        )


@given(st.lists(st.tuples(PROPERTIES, st.binary(max_size=20)), min_size=1, max_size=4))
@example([(b"KEYS\x01k\x02", PREFIX)])
@example([(b"KEYS\x01__RPL", b"_")])
def test_mentions_are_those_in_properties(messages: list[tuple[bytes, bytes]]) -> None:
    """Not those in bodies."""
    found = messages_in(answer([Written(properties=properties, body=body) for properties, body in messages]))
    assert isinstance(found, UniformRun)
    assert found.mention(PREFIX) == any(PREFIX in properties for properties, _ in messages)


def test_without_compiled_code_all_is_done_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine for which there is none."""
    data = answer([Written()] * 3)
    compiled = packed(messages_in(data), limit=10**7)
    monkeypatch.setattr(uniform_run, "_library", None)
    found = messages_in(data)
    assert isinstance(found, list)
    assert packed(found, limit=10**7) == compiled


def test_a_missing_library_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources that were not installed, or are read from an archive."""
    monkeypatch.setattr(uniform_run, "LIBRARY", uniform_run.LIBRARY.with_name("missing.so"))
    assert uniform_run._load() is None


@given(st.lists(REGULAR, min_size=1, max_size=8), st.integers(0, 4))
def test_what_was_sent_can_be_told_from_what_is_stored(messages: list[Written], appended: int) -> None:
    """To the byte, in compiled code and without: whatever the target appends, or leaves out at the end."""
    packer = Packer(Stamp("east", "a", 0), topic=TOPIC, limit=10**7, max_messages=1000, exact_born=False)
    (pack,) = packer.pack(messages_in(answer(messages)), copies=False)
    tail = (
        *(b"", b"CLUSTER\x01west\x02", b"CLUSTER\x01west", b"MSG_REGION\x01r\x02TRACE_ON\x01true\x02"),
        b"CLUSTER\x01west\x02__CRC32#\x010123456789\x02",
    )[appended]
    at, data, offset = 0, b"", 40
    while at < len(pack.data):
        size = size_of(pack.data, at)
        crc, flag, body, raw = unpack(pack.data[at : at + size])
        kept = stored(body=body[4:], properties=raw + tail, offset=offset, numbers=(flag, 1, 0))
        data += kept[:8] + crc.to_bytes(4) + kept[12:]
        at, offset = at + size, offset + 1
    found = messages_in(data)
    assert isinstance(found, UniformRun)
    assert found.sent() == pack.data
    assert sent_as(parse_messages(data)) == pack.data


def test_properties_that_no_batch_holds_are_left_to_python() -> None:
    """As long as they may be at the target, with what it has appended."""
    data = stored(properties=b"a\x01" + b"x" * (MAX_PROPERTIES - 2))
    found = messages_in(data)
    assert isinstance(found, UniformRun)
    assert found.sent() is None
    assert len(sent_as(found)) > MAX_PROPERTIES
