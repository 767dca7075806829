"""JSON and fastjson's variant of it, as brokers were seen to write it."""

from __future__ import annotations

import json
import resource

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replicator.errors import ProtocolError
from replicator.protocol.fastjson import MAX_DEPTH, parse

CLUSTER_INFO = (
    b'{"brokerAddrTable":{"east-a":{"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:10921"},'
    b'"brokerName":"east-a","cluster":"east"}},"clusterAddrTable":{"east":["east-a"]}}'
)
OFFSETS = (
    b'{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:{"brokerOffset":10,"consumerOffset":-1},'
    b'{"topic":"T","queueId":1,"brokerName":"a"}:{"brokerOffset":3,"consumerOffset":3}},"consumeTps":0.0}'
)


def test_numeric_keys_become_strings() -> None:
    """As in the answer to 106."""
    assert parse(CLUSTER_INFO) == {
        "brokerAddrTable": {
            "east-a": {
                "brokerAddrs": {"0": "127.0.0.1:10911", "1": "127.0.0.1:10921"},
                "brokerName": "east-a",
                "cluster": "east",
            }
        },
        "clusterAddrTable": {"east": ["east-a"]},
    }


def test_objects_as_keys_become_sorted_pairs() -> None:
    """As in the answers to 202 and 208; the order of their members does not matter."""
    table = parse(OFFSETS)["offsetTable"]
    assert table == {
        (("brokerName", "a"), ("queueId", 0), ("topic", "T")): {"brokerOffset": 10, "consumerOffset": -1},
        (("brokerName", "a"), ("queueId", 1), ("topic", "T")): {"brokerOffset": 3, "consumerOffset": 3},
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{1:null}", {"1": None}),
        ("{ 1 : true , 2 : false }", {"1": True, "2": False}),
        ("{1:[ ]}", {"1": []}),
        ('{1:[1,-2.5,"x",{2:3}]}', {"1": [1, -2.5, "x", {"2": 3}]}),
        ('{1:"a\\"b\\\\\\u00e9\\n"}', {"1": 'a"b\\é\n'}),
        ('{null:"x",-1:{}}', {"null": "x", "-1": {}}),
        ("{{{1:2}:3}:4}", {(((("1", 2),), 3),): 4}),
        ("\r\n\t {1:2} \n", {"1": 2}),
        ("null", None),
        ("{}", {}),
    ],
)
def test_odd_but_readable(text: str, value: object) -> None:
    """Bare keys, nulls, spaces, escapes, objects as keys of objects that are keys."""
    assert parse(text.encode()) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.dictionaries(st.integers(0, 99), JSON, min_size=1, max_size=3))
def test_standard_json_is_read_as_such(value: object, table: dict[int, object]) -> None:
    """Also where a bare key around it makes the whole non-standard."""
    assert parse(json.dumps(value).encode()) == value
    text = "{" + ",".join(f"{key}:{json.dumps(inner)}" for key, inner in table.items()) + "}"
    assert parse(text.encode()) == {str(key): inner for key, inner in table.items()}


BROKEN = [
    b"",
    b" ",
    b"{",
    b"{1",
    b"{1:",
    b"{1:2",
    b"{1:2,",
    b"{1 2}",
    b"{:1}",
    b"[1 2]",
    b"{1:2}}",
    b"{1:x}",
    b'{1:"open',
    b'{1:"\\x"}',
    b'{1:"\\ud800"}',
    b"{1:NaN}",
    b"{1:1e999}",
    b"{1:\xff}",
    b'"\xff"',
    b'{{"a":[1]}:2}',
    b'{{"a":{}}:2}',
    b'{{{"a":1}:1,"b":2}:3}',
    b'{{{"a":1}:1,{"a":"x"}:2}:3}',
]


@pytest.mark.parametrize("data", BROKEN)
def test_what_is_no_json_is_a_protocol_error(data: bytes) -> None:
    """Cut off, contradictory, no UTF-8, or with a key that cannot be one."""
    with pytest.raises(ProtocolError):
        parse(data)


@pytest.mark.parametrize("unit", [b"[", b"{1:", b"{", b'{"a":', b"{1:["])
def test_nesting_is_bounded(unit: bytes) -> None:
    """A hundred thousand levels are an error, not a full stack."""
    with pytest.raises(ProtocolError, match="deeper"):
        parse(unit * 100_000)


def test_the_depth_limit_is_exact() -> None:
    """`MAX_DEPTH` levels below the outermost are read, one more is not."""

    def nested(levels: int) -> bytes:
        return b"{1:" * levels + b"{}" + b"}" * levels

    assert parse(nested(MAX_DEPTH))
    with pytest.raises(ProtocolError, match="deeper"):
        parse(nested(MAX_DEPTH + 1))


def test_an_error_shows_only_the_beginning_of_what_is_wrong() -> None:
    """A megabyte of garbage does not end up in a log line."""
    with pytest.raises(ProtocolError) as caught:
        parse(b"{1:" + b"z" * 1_000_000 + b"}")
    assert len(str(caught.value)) < 200


ODD = st.lists(
    st.sampled_from(["{", "}", "[", "]", ":", ",", '"', "\\", "a", "1", "-", "null", " ", "é", '"k"', "\x00"]),
    max_size=30,
).map(lambda parts: "".join(parts).encode())


@given(st.binary(max_size=60) | ODD)
@example(b"{{1:2}:3}")
def test_arbitrary_bytes_give_a_value_or_a_protocol_error(data: bytes) -> None:
    """Never any other exception."""
    try:
        assert isinstance(parse(data), str | int | float | list | dict | None)
    except ProtocolError:
        return


def test_a_string_of_backslashes_costs_no_more_than_itself() -> None:
    """A hundred times its size would be kept to go back to, if the expression could go back."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert parse(b'{0:"' + b"\\\\" * 4_000_000 + b'"}') == {"0": "\\" * 4_000_000}
    with pytest.raises(ProtocolError, match="open string"):
        parse(b'{0:"' + b"\\\\" * 4_000_000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 * 1024
