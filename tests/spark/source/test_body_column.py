"""Bodies of rows are what producers wrote; one that cannot be decoded is null, and its row is there."""

from __future__ import annotations

import zlib

import pytest

from replicator.protocol.message import StoredMessage
from replicator.spark.source.body_column import plain

COMPRESSED = 0x301


@pytest.mark.parametrize(
    ("stored", "flag", "body"),
    [
        (b"as it is", 0, b"as it is"),
        (zlib.compress(b"hello"), COMPRESSED, b"hello"),
        (zlib.compress(b"hello")[:-1], COMPRESSED, None),
        (b"never compressed", COMPRESSED, None),
    ],
)
def test_bodies(stored: bytes, flag: int, body: bytes | None) -> None:
    message = StoredMessage(0, 0, flag, 0, 0, 0, 0, len(stored).to_bytes(4) + stored, b"")
    assert plain(message) == body
