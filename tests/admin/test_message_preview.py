"""The beginning of a body, whatever is in it."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.admin.message_preview import preview_of
from replicator.protocol import compression
from replicator.protocol.compression import compress


def test_text_is_shown_as_text_and_cut_between_characters() -> None:
    assert preview_of("größe".encode(), 0) == {"body": "größe", "body_kind": "text", "body_cut": False}
    long = preview_of(("x" + "ü" * 2000).encode(), 0)
    assert (long["body_kind"], long["body_cut"], set(long["body"])) == ("text", True, {"x", "ü"})


def test_other_bytes_are_hexadecimal() -> None:
    assert preview_of(b"\xff\x00\x01\x02\x03", 0)["body"] == "ff 00010203"
    assert preview_of(b"\xc3", 0)["body_kind"] == "hexadecimal", "half a character is not text"


def test_compressed_bodies_are_shown_as_their_producer_wrote_them() -> None:
    assert preview_of(zlib.compress(b"hello"), 0x1)["body"] == "hello"
    assert preview_of(compress(b"hello", 0x201), 0x201)["body"] == "hello"
    unknown = preview_of(b"\xff\xff", 0x401)
    assert unknown["body_kind"] == "hexadecimal; it is compressed in an unknown way (sysFlag 0x401)"


def test_no_more_is_inflated_than_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes may be the beginning of 64 MiB; what is short is checked to its end."""
    assert "cut off" in preview_of(zlib.compress(b"hello")[:-3], 0x1)["body_kind"]
    monkeypatch.setattr(compression, "MOST", 1)  # nothing asks for all of it
    found = preview_of(zlib.compress(b"x" * 10_000_000), 0x1)
    assert (found["body"], found["body_kind"], found["body_cut"]) == ("x" * 2048, "text", True)


@given(st.binary(max_size=5000), st.integers(0, 0x7FF))
def test_no_body_is_an_error(body: bytes, sys_flag: int) -> None:
    assert isinstance(preview_of(body, sys_flag)["body"], str)
