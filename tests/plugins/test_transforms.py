"""Transforms by themselves: what they may change, what they leave as it was, and how they are named."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import ConfigError
from replicator.plugins import Message, NoConfig, Transform
from replicator.plugins.transforms import Chain, chain_of, mistakes_of
from replicator.protocol.message import StoredMessage
from replicator.protocol.properties import decode, encode
from replicator.routing.faults import TransformRefused
from replicator.routing.queue_map import Queue
from tests.support.packages import TRANSFORMS_PAGE, example, install

Change = Callable[[Message], Any]


class _By(Transform[NoConfig]):
    def __init__(self, change: Change) -> None:
        super().__init__(NoConfig())
        self._change = change

    def apply(self, message: Message) -> Message | None:
        changed: Message | None = self._change(message)
        return changed


def stored(body: bytes = b"body", properties: bytes = b"TAGS\x01a\x02", *, sys_flag: int = 0) -> StoredMessage:
    packed = zlib.compress(body) if sys_flag else body
    return StoredMessage(9, 7, sys_flag, 1, 2, 3, 4, len(packed).to_bytes(4) + packed, properties)


def run(message: StoredMessage, *changes: Change) -> StoredMessage | None:
    chain = Chain([(f"t{number}", _By(change)) for number, change in enumerate(changes)])
    return chain("T", Queue("a", 5), message)


def changed(message: StoredMessage, *changes: Change) -> StoredMessage:
    found = run(message, *changes)
    assert found is not None
    return found


def test_it_sees_a_message_as_its_producer_wrote_it() -> None:
    """Decompressed, with its own properties, and where it is; provenance and brokers' properties are hidden."""
    seen: list[Message] = []

    def look(m: Message) -> Message:
        seen.append(m)
        return m

    raw = b"__RPL_ORIGIN\x01n\x02KEYS\x01k\x02TAGS\x01\x02MSG_REGION\x01r\x02CLUSTER\x01c\x02TRACE_ON\x01true"
    message = stored(b"text" * 100, raw, sys_flag=0x301)
    assert changed(message, look) is message
    assert seen == [
        Message(
            topic="T",
            broker="a",
            queue_id=5,
            queue_offset=9,
            born_timestamp=1,
            store_timestamp=2,
            flag=7,
            body=b"text" * 100,
            properties={"KEYS": "k", "TAGS": ""},
        )
    ]


def test_it_sees_nothing_of_how_a_message_waited() -> None:
    """So that it sees the same of one that waits and of the delivered one; all of it stays."""
    seen: list[Any] = []

    def look(m: Message) -> Message:
        seen.append(m.properties)
        return replace(m, properties={**m.properties, "n": "1"})

    own = {"DELAY": "3", "UNIQ_KEY": "AB", "KEYS": "k"}
    waits = {"REAL_TOPIC": "T", "REAL_QID": "5", "WAIT": "true", "TIMER_ROLL_TIMES": "1"}
    delivered = waits | {"TIMER_ENQUEUE_MS": "1", "TIMER_DEQUEUE_MS": "2", "WAIT": "false", "PGROUP": "g"}
    for others in (waits, delivered):
        found = changed(stored(properties=encode(own | others)), look)
        assert decode(found.properties) == own | others | {"n": "1"}
    assert seen == [own, own]


def test_it_does_not_see_offsets_in_light_queues_which_stay() -> None:
    """By them the message is known to be in light queues; they are not copied."""
    message = stored(b"x", b"INNER_MULTI_QUEUE_OFFSET\x017\x02INNER_MULTI_DISPATCH\x01%LMQ%a\x02")
    found = changed(message, lambda m: replace(m, properties={**m.properties, "n": str(len(m.properties))}))
    assert found is not None
    assert decode(found.properties) == {
        "INNER_MULTI_QUEUE_OFFSET": "7",
        "INNER_MULTI_DISPATCH": "%LMQ%a",
        "n": "1",
    }


@given(st.binary(max_size=60), st.booleans())
def test_what_is_left_alone_stays_to_the_byte(raw: bytes, compressed: bool) -> None:
    """Also properties that are no UTF-8, and a body whose compression is not ours."""
    message = stored(b"text" * 100, raw, sys_flag=0x301 if compressed else 0)
    message.body = message.body if not compressed else _packed(zlib.compress(b"text" * 100, 9))
    assert changed(message, lambda m: replace(m, body=b"" + m.body, properties=dict(m.properties))) == message


def _packed(body: bytes) -> bytes:
    return len(body).to_bytes(4) + body


def test_what_it_changes_is_sent() -> None:
    """The body compressed as it was, with its checksum; one property changed leaves the bytes of the others."""
    raw = b"__RPL_ORIGIN\x01n\x02odd\x01\xff\xfe\x02TAGS\x01a\x02CLUSTER\x01c"
    message = stored(b"text" * 100, raw, sys_flag=0x301)
    found = changed(
        message,
        lambda m: replace(m, body=m.body.upper(), flag=-1),
        lambda m: replace(m, properties={**m.properties, "TAGS": "ü"}),
    )
    assert zlib.decompress(found.body[4:]) == b"TEXT" * 100
    assert found.body[:4] == (len(found.body) - 4).to_bytes(4)
    assert found.body_crc == zlib.crc32(found.body[4:]) & 0x7FFFFFFF
    assert found.flag == -1
    assert found.properties == b"__RPL_ORIGIN\x01n\x02odd\x01\xff\xfe\x02TAGS\x01\xc3\xbc\x02"
    assert (found.queue_offset, found.born_timestamp, found.store_timestamp, found.reconsume_times) == (9, 1, 2, 3)
    assert changed(stored(), lambda m: replace(m, body=b"")).body == bytes(4)
    assert changed(stored(), lambda m: replace(m, properties={})).properties == b""


def test_one_after_the_other_until_one_leaves_it_out() -> None:
    """Whatever stands behind that one does not see it."""
    assert changed(stored(), *[lambda m: replace(m, body=m.body + b"+")] * 3).body[4:] == b"body+++"
    assert run(stored(), lambda m: None, lambda m: 1 / 0) is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda m: 1 / 0, "'t0' raised ZeroDivisionError: division by zero"),
        (lambda m: [m] * int("x" * 1000), "'t0' raised ValueError: invalid literal"),
        (lambda m: m.body, "'t0' gave a bytes, which is not a Message"),
        (lambda m: replace(m, topic="U"), "'t0' changed more than flag, body and properties"),
        (lambda m: replace(m, queue_id=1), "'t0' changed more than"),
        (lambda m: replace(m, queue_offset=1), "'t0' changed more than"),
        (lambda m: replace(m, born_timestamp=3), "'t0' changed more than"),
        (lambda m: replace(m, body="text"), "the body is a str, not bytes"),
        (lambda m: replace(m, flag=2**31), "flag 2147483648 is not a signed 32-bit number"),
        (lambda m: replace(m, flag="1"), "flag '1' is not a signed 32-bit number"),
        (lambda m: replace(m, properties={"a": 1}), "property 'a' = 1 is not a text with a name"),
        (lambda m: replace(m, properties={"": "1"}), "property '' = '1' is not a text with a name"),
        (lambda m: replace(m, properties={"a": "\x02"}), "has one of the characters 1 and 2"),
        (lambda m: replace(m, properties={"a\x01": "1"}), "has one of the characters 1 and 2"),
        (lambda m: replace(m, properties={"a": "\ud800"}), "is not valid text"),
        (lambda m: replace(m, properties={"__RPL_ORIGIN": "x"}), "__RPL_ORIGIN is reserved"),
        (lambda m: replace(m, properties={"CLUSTER": "x"}), "CLUSTER is reserved"),
        (lambda m: replace(m, properties={"REAL_TOPIC": "x"}), "REAL_TOPIC is reserved"),
    ],
)
def test_what_it_may_not_do_is_refused(change: Change, told: str) -> None:
    """The data path knows one error alone."""
    with pytest.raises(TransformRefused) as caught:
        run(stored(), change)
    assert told in str(caught.value)
    assert len(str(caught.value)) <= 300


def test_an_iterable_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(TransformRefused, match="are a list"):
        run(stored(), lambda m: replace(m, properties=[("a", "b")]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sys_flag", "body", "told"),
    [
        (0x101, b"no LZ4, at all", "cannot be decompressed"),
        (0x201, b"no ZSTD, at all", "cannot be decompressed"),
        (0x401, b"x", r"compressed in an unknown way \(sysFlag 0x401\)"),
        (0x301, b"no zlib", "cannot be decompressed"),
        (0x1, zlib.compress(b"text" * 100)[:-4], "is cut off"),
        (0x301, zlib.compress(bytes(64 * 2**20 + 1)), "more than 67108864 bytes"),
    ],
    ids=["LZ4", "ZSTD", "unknown", "damaged", "cut off", "bomb"],
)
def test_a_body_that_cannot_be_read_is_refused(sys_flag: int, body: bytes, told: str) -> None:
    message = stored(sys_flag=0)
    message.sys_flag, message.body = sys_flag, _packed(body)
    with pytest.raises(TransformRefused, match=told):
        run(message, lambda m: m)


# Named in a configuration.

_MORE = """

class Delivered(Transform):
    def apply(self, message):
        return replace(message, flag=message.queue_offset)

class Fails(Transform):
    takes_waiting = True

    def __init__(self, config):
        raise LookupError("no table")

    def apply(self, message):
        return message

Other = dict
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of the documentation, and what is wrong."""
    entries = {"mask": "Mask", "drop-tests": "DropTests", "delivered": "Delivered"}
    entries |= {"fails": "Fails", "other": "Other", "gone": "Gone"}
    install(tmp_path, "transforms_of_others", example(TRANSFORMS_PAGE) + _MORE, "transforms", entries)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "transforms_of_others", raising=False)


@pytest.mark.usefixtures("installed")
def test_the_example_of_the_documentation() -> None:
    """With its configuration in the setting itself."""
    chain = chain_of(["mask?field=card&with=%2C%26+x", "drop-tests"])
    assert chain is not None
    found = chain("T", Queue("a", 0), stored(json.dumps({"card": 1, "n": 2}).encode()))
    assert found is not None
    assert json.loads(found.body[4:]) == {"card": ",& x", "n": 2}
    assert decode(found.properties) == {"TAGS": "masked"}
    assert chain("T", Queue("a", 0), stored(b"{}", encode({"TAGS": "test"}))) is None
    untouched = stored(b'{"n": 1}')
    assert chain("T", Queue("a", 0), untouched) is untouched
    with pytest.raises(TransformRefused, match="'mask' raised JSONDecodeError"):
        chain("T", Queue("a", 0), stored(b"no JSON"))


@pytest.mark.usefixtures("installed")
def test_all_mistakes_are_told_with_field_value_and_what_there_is() -> None:
    wanted = ["none", "mask", "mask?field", "mask?field=a&field=b", "drop-tests?a=b", "fails", "other", "gone"]
    with pytest.raises(ConfigError) as caught:
        chain_of(wanted)
    assert caught.value.message.splitlines() == [
        "transforms = 'none' is not installed: there are delivered, drop-tests, fails, gone, mask, other",
        "transforms = 'mask': field is missing: it has no default",
        "transforms = 'mask?field': write name?key=value&key=value",
        "transforms = 'mask?field=a&field=b': a key is given twice",
        "transforms = 'drop-tests': a is not a setting: see `replicator config check`",
        "transforms = 'fails' cannot be created (LookupError: no table)",
        "transforms = 'other' is not a transform: it is not a subclass of Transform",
        (
            "transforms = 'gone' cannot be loaded (AttributeError: module 'transforms_of_others' has no attribute"
            " 'Gone'): fix or remove the package that provides it"
        ),
    ]
    assert (
        mistakes_of("mask, none")
        == mistakes_of(["mask", "none"])
        == [
            "transforms = 'mask': field is missing: it has no default",
            "transforms = 'none' is not installed: there are delivered, drop-tests, fails, gone, mask, other",
        ]
    )


@pytest.mark.usefixtures("installed")
def test_only_those_that_say_so_are_given_waiting_messages() -> None:
    """All of a route have to, and each that does not is named beside whatever else is wrong."""
    assert chain_of(["mask?field=card", "drop-tests"], waiting=True) is not None
    refused = (
        "transforms = 'delivered' takes no messages that wait at their broker, and sync has pending: leave pending"
        " out of sync, or have the class say `takes_waiting = True` (docs/TRANSFORMS.md)"
    )
    with pytest.raises(ConfigError) as caught:
        chain_of(["mask?field=card", "delivered", "fails"], waiting=True)
    assert caught.value.message.splitlines() == [
        refused,
        "transforms = 'fails' cannot be created (LookupError: no table)",
    ]
    for sync in ("topics, pending", ["pending"]):
        assert mistakes_of(["delivered"], sync) == [refused]
    for other in (None, "topics", ["topics"], "none", 3):
        assert mistakes_of(["delivered"], other) == []


def test_none_is_none() -> None:
    """And where none is installed, that is said."""
    assert chain_of([]) is None
    assert mistakes_of(None) == mistakes_of(3) == mistakes_of("") == []
    none = "no transforms (entry points rocketmq_replicator.transforms) are installed"
    assert mistakes_of("x") == [f"transforms = 'x' is not installed: {none}"]
