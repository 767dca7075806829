"""Columns of messages are the same by compiled code as without it, and give the messages back."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.protocol.columns import Columns, put_together, take_apart
from replicator.protocol.message import StoredMessage, checksum
from replicator.protocol.uniform_run import COMPILED, UniformRun, messages_in
from tests.support.stored import encoded

_long, _int = st.integers(0, 2**63 - 1), st.integers(-(2**31), 2**31 - 1)
_properties = st.sampled_from([b"", b"KEYS\x01k", b"KEYS\x01k\x02", b"KEYS\x01k\x02\x02", b"\x02", b"v" * 32767])


@st.composite
def _runs(draw: st.DrawFn) -> list[list[StoredMessage]]:
    """Each of messages that are alike."""
    runs = []
    for length in draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)):
        first, sys_flag, times = draw(st.integers(0, 2**62)), draw(st.sampled_from([0, 0x301])), draw(_int)
        runs.append(
            [
                StoredMessage(
                    first + at,
                    draw(_int),
                    sys_flag,
                    draw(st.integers(-(2**63), 2**63 - 1)),
                    draw(_long),
                    times,
                    draw(st.integers(0, 2**32 - 1)),
                    len(body := draw(st.binary(max_size=40))).to_bytes(4) + body,
                    draw(_properties),
                )
                for at in range(length)
            ]
        )
    return runs


def shown(columns: Columns) -> list[object]:
    used = [columns.body_ends[-1], columns.properties_ends[-1]]
    texts = [bytes(columns.body)[: used[0]], bytes(columns.properties)[: used[1]]]
    numbers = ("offset", "born", "stored", "flag", "sys_flag", "reconsumed", "crc", "body_ends", "properties_ends")
    return [columns.count, *(list(getattr(columns, name)) for name in numbers), *texts]


@pytest.mark.skipif(not COMPILED, reason="there is nothing to compare with")
@given(_runs())
def test_columns_are_the_same_and_so_are_messages_made_of_them(runs: list[list[StoredMessage]]) -> None:
    pulled: list[Sequence[StoredMessage]] = [messages_in(encoded(run)) for run in runs]
    assert all(isinstance(each, UniformRun) for each in pulled)
    columns = take_apart(pulled)
    assert shown(columns) == shown(take_apart(runs)) == shown(take_apart([*pulled[:-1], runs[-1]]))
    wanted = [message for run in runs for message in run]
    names = (*("offset", "born", "stored", "flag", "sys_flag", "reconsumed"), "body_ends", "properties_ends")
    places = {name: getattr(columns, name).buffer_info()[0] for name in names}
    for name in ("body", "properties"):
        places[name] = ctypes.addressof(ctypes.c_char.from_buffer(getattr(columns, name)))
    size = columns.body_ends[-1] + columns.properties_ends[-1]
    if max(len(message.properties.rstrip(b"\x02")) for message in wanted) >= 32767:
        with pytest.raises(ValueError, match="too long"):
            put_together(columns.count, places, size)
        return
    made = [*put_together(columns.count, places, size)]
    for one, other in zip(made, wanted, strict=True):
        own = other.properties.rstrip(b"\x02")
        assert one.properties == (own + b"\x02" if own else b"")
        assert one.body_crc == checksum(other.content)  # what the column says of it is not believed
        one.properties, one.body_crc = other.properties, other.body_crc
        assert one == other


def test_nothing_has_no_columns() -> None:
    assert take_apart([[]]).count == 0
