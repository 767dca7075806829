"""What others have written changes nothing on a terminal, and hides nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.observe.printable import one_line, printable

#: An escape sequence, the same as one character, a line of its own, and text that is shown from right to left.
HARMFUL = ["\x1b[2J", "\x9b2J", "\x07", "\x7f", "\u2028", "\u2029", "\u202egnp", "\u2066", "\u200f", "\r", "\ufeff"]


@pytest.mark.parametrize("harmful", HARMFUL)
def test_a_space_stands_for_each_of_them(harmful: str) -> None:
    assert one_line(f"a{harmful}b") == printable(f"a{harmful}b") == f"a {harmful[1:]}b"


def test_what_is_read_as_it_stands_stays() -> None:
    text = 'Ünïcode 订单 — "x" 🙂'
    assert one_line(text) == printable(text) == text


def test_lines() -> None:
    assert printable("one\n\ttwo\r\nthree") == "one\n two \nthree"
    assert one_line("one\n\ttwo") == "one  two"


@given(st.text())
def test_nothing_else_is_left(text: str) -> None:
    assert one_line(text).isprintable()
    assert printable(text).replace("\n", "").isprintable()
    assert len(one_line(text)) == len(printable(text)) == len(text)
