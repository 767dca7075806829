"""Texts stay as they are written; what cannot be read is one kind of error, whatever is wrong with it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acl_sync.acl1 import Unclear
from acl_sync.plain_yaml import NotYaml, load


@pytest.mark.parametrize(
    "text", ["12345678", "-7", "0", "true", "yes", "'01234567'", '"1_000"', "!!bool 7", "!!str 010"]
)
def test_what_all_versions_read_alike(text: str) -> None:
    """A decimal number as the text that it is, too."""
    read = load(text)
    assert read == text.removeprefix("!!bool ").removeprefix("!!str ").strip("'\"")
    assert not isinstance(read, Unclear)


@pytest.mark.parametrize(
    "text", ["01234567", "1_000_000", "0x1234567", "12:30:45", "2020-01-01", "1.5", "!!int ''"]
)
def test_what_some_versions_read_as_a_number(text: str) -> None:
    """Older brokers take 01234567 for an octal one, and make a text of that."""
    assert isinstance(load(text), Unclear)


@pytest.mark.parametrize("text", ["", "~", "null", "a: &a 1\nb: null"])
def test_nothing_is_nothing(text: str) -> None:
    read = load(text)
    assert (read["b"] if read else read) is None


@pytest.mark.parametrize(
    "text",
    [
        "a: &a 1\nb: *a",
        "[",
        "!!int [1]",
        pytest.param("[" * 5000, id="deep"),
        "a: 1\n---\nb: 2",
        "? [a]\n: 1",
        "\x00",
    ],
)
def test_what_cannot_be_read(text: str) -> None:
    with pytest.raises(NotYaml) as caught:
        load(text)
    assert str(caught.value) == ""


@given(st.text(alphabet="!&*<>|-?:,[]{}#'\"%@` \n\ta0~=.", max_size=40) | st.text(max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Never any other exception."""
    try:
        load(text)
    except NotYaml:
        return
