"""Properties are cut as bytes: what brokers made goes, what the application wrote stays to the byte."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replicator.protocol import properties
from replicator.protocol.properties import BROKER_MADE, broker_made_tail, decode, encode, find, light_offset, number

NAME = st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"), min_size=1, max_size=12)
VALUE = st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"), max_size=12)
LIKE_BROKERS = st.sampled_from(["MYCLUSTER", "CLUSTER2", "XMSG_REGION", "TRACE_ON_", "ACLUSTERB", "cluster"])
OWN = st.dictionaries(
    (NAME | LIKE_BROKERS).filter(lambda name: name.encode() not in BROKER_MADE), VALUE, max_size=6
)
MADE = st.dictionaries(st.sampled_from([name.decode() for name in BROKER_MADE]), VALUE, max_size=3)


def strip(raw: bytes) -> bytes:
    """What is left of one message's properties, with a 0x02 at the end instead of in front."""
    (stripped,) = properties.strip([raw])
    return stripped[1:] + stripped[:1]


@given(OWN)
def test_what_is_encoded_is_decoded(told: dict[str, str]) -> None:
    """In unicode too, and with or without the last 0x02."""
    raw = encode(told)
    assert decode(raw) == told
    assert decode(raw.removesuffix(b"\x02")) == told


def test_the_bytes_are_those_of_the_java_client() -> None:
    """Name, 0x01, value, 0x02."""
    assert encode({"KEYS": "k", "é": ""}) == b"KEYS\x01k\x02\xc3\xa9\x01\x02"
    assert encode({}) == b""


def test_what_is_no_utf_8_can_be_shown() -> None:
    """With replacement characters, without an error."""
    assert decode(b"a\xff\x01b\xfe\x02") == {"a�": "b�"}


@given(OWN, MADE, st.booleans())
def test_only_what_brokers_made_is_stripped(own: dict[str, str], made: dict[str, str], cut_off: bool) -> None:
    """Names that contain a broker's name survive, in their order; a missing last 0x02 is added."""
    pairs = sorted((own | made).items())
    raw = encode(dict(pairs))
    if cut_off:
        raw = raw.removesuffix(b"\x02")
    assert strip(raw) == encode({name: value for name, value in pairs if name in own})


@given(OWN, MADE)
def test_stripping_twice_changes_nothing(own: dict[str, str], made: dict[str, str]) -> None:
    """It is idempotent."""
    once = strip(encode(own | made))
    assert strip(once) == once


RAW = st.binary(max_size=12) | st.builds(
    lambda own, made, cut_off: encode(dict(sorted((own | made).items()))).removesuffix(b"\x02" if cut_off else b""),
    OWN,
    MADE,
    st.booleans(),
)


@given(st.lists(RAW, max_size=6))
@example([b"k\x01v\x02\xff\x02CLUSTER\x01\xffx", b"CLUSTER\x01a\xffb", b"\xff\x02", b""])
def test_many_are_stripped_as_each_alone(many: list[bytes]) -> None:
    """Also bytes that no client writes, such as those that stand between two messages meanwhile."""
    assert properties.strip(many) == [properties.strip([raw])[0] for raw in many]


@given(st.lists(OWN.filter(bool), max_size=3), OWN, MADE, st.integers(0, 3), st.booleans())
def test_one_that_is_not_stripped_is_noticed(
    clean: list[dict[str, str]], own: dict[str, str], made: dict[str, str], at: int, cut_off: bool
) -> None:
    """Wherever it stands, and whether its last 0x02 or a broker's property is what should not be there."""
    many = [encode(each)[:-1] for each in clean]
    assert not many or properties.is_stripped(many)
    raw = encode(own | made).removesuffix(b"\x02" if cut_off else b"")
    many.insert(at, raw)
    assert properties.is_stripped(many) == (bool(own) and cut_off and not made)


@pytest.mark.parametrize(
    ("raw", "tail"),
    [
        (b"k\x01v\x02CLUSTER\x01a\x02TRACE_ON\x01b\x02", b"\x02CLUSTER\x01a\x02TRACE_ON\x01b\x02"),
        (b"k\x01v\x02CLUSTER\x01a", b"\x02CLUSTER\x01a"),
        (b"CLUSTER\x01a\x02k\x01v\x02", b"\x02"),
        (b"k\x01v", b"\x02"),
        (b"CLUSTER\x01a", b"\x02"),
        (b"", b"\x02"),
    ],
)
def test_the_tail_is_what_brokers_appended(raw: bytes, tail: bytes) -> None:
    """From its 0x02 on; without one, what may stand at an end anyway."""
    assert broker_made_tail(raw) == tail


@pytest.mark.parametrize("name", ["MYCLUSTER", "CLUSTER2", "MSG_REGION_X", "OTHER.TRACE_ON"])
def test_user_properties_with_a_similar_name_survive(name: str) -> None:
    """Beside the broker's own, whichever comes first."""
    mine = encode({name: "mine"})
    made = encode({"CLUSTER": "east", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"})
    assert strip(mine + made) == mine
    assert strip(made + mine) == mine
    assert strip((made + mine).removesuffix(b"\x02")) == mine


def test_the_checksum_of_a_stored_message_is_stripped() -> None:
    """A copy is stored elsewhere, under other offsets: there it would be wrong, or the second one."""
    assert strip(b"KEYS\x01k\x02__CRC32#\x010123456789\x02") == b"KEYS\x01k\x02"
    assert strip(encode({"__CRC32": "mine", "__CRC32#": "0123456789"})) == encode({"__CRC32": "mine"})


def test_a_broker_name_within_a_value_stays() -> None:
    """Only names are looked at."""
    raw = encode({"note": "CLUSTER", "CLUSTER": "east"})
    assert strip(raw) == encode({"note": "CLUSTER"})


def test_properties_that_piled_up_over_hops_all_go() -> None:
    """Brokers append in a batch without removing the old ones."""
    raw = b"CLUSTER\x01a\x02KEYS\x01k\x02CLUSTER\x01b\x02CLUSTER\x01c"
    assert strip(raw) == b"KEYS\x01k\x02"
    assert strip(b"CLUSTER\x01a") == b""


@given(OWN)
def test_every_property_is_found(told: dict[str, str]) -> None:
    """Wherever it stands, with or without the last 0x02."""
    raw = encode(told)
    for name, value in told.items():
        assert find(raw, name.encode()) == value.encode()
        assert find(raw.removesuffix(b"\x02"), name.encode()) == value.encode()


@pytest.mark.parametrize(
    "raw", [b"", b"MYTAGS\x01x\x02", b"TAGS2\x01x\x02", b"a\x01TAGS\x02", b"a\x01bTAGS\x01x\x02"]
)
def test_what_only_looks_similar_is_not_found(raw: bytes) -> None:
    """A longer name, a value, or a name inside a value."""
    assert find(raw, b"TAGS") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"0", 0),
        ("9223372036854775807", 2**63 - 1),
        *((text, None) for text in ("", "-1", "²", "1_0", "x", "9" * 20, "9" * 5000, b"1 ", b"\xc2\xb2")),
    ],
)
def test_only_a_number_is_one(text: str | bytes, expected: int | None) -> None:
    """Python's own reading takes more than that, and fails at thousands of digits."""
    assert number(text) == expected


def test_an_empty_value_is_not_a_missing_one() -> None:
    """`b""` and None are told apart."""
    assert find(b"TAGS\x01\x02", b"TAGS") == b""
    assert find(b"a\x01b\x02TAGS\x01", b"TAGS") == b""


def test_the_offset_in_a_light_queue() -> None:
    """Names and offsets stand in the same order; one may be missing, or damaged."""
    raw = b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x017,12\x02"
    assert [light_offset(raw, name) for name in ("%LMQ%a", "%LMQ%b", "%LMQ%c")] == [7, 12, None]
    assert light_offset(b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02", "%LMQ%a") is None
    assert light_offset(b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x01-1\x02", "%LMQ%a") is None
