"""Bodies that a route compresses, and what is the same message though its bytes are others."""

from __future__ import annotations

import random
from typing import Literal

import pytest
from msgspec.structs import replace

from replicator.protocol.compression import compress, decompress
from replicator.protocol.message import StoredMessage, checksum
from replicator.routing.body_compression import BodyCompression, plain
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.queue_map import Queue

TEXT = b"compress me " * 100


def message(body: bytes, sys_flag: int = 0) -> StoredMessage:
    return StoredMessage(9, 1, sys_flag, 2, 3, 4, checksum(body), len(body).to_bytes(4) + body, b"KEYS\x01k\x02")


@pytest.mark.parametrize(("kind", "flags"), [("zlib", 0x001), ("zstd", 0x201)])
def test_only_the_body_changes(kind: Literal["zlib", "zstd"], flags: int) -> None:
    """And what says so: its length, its checksum, and sysFlag, of which other bits stay."""
    original = message(TEXT, 0x2)
    found = BodyCompression(kind, 1)(original)
    assert found.sys_flag == 0x2 | flags
    assert len(found.content) < len(TEXT) / 10
    assert decompress(found.content, found.sys_flag) == TEXT
    assert int.from_bytes(found.body[:4]) == found.body_length
    assert not found.is_damaged
    same = {name: getattr(original, name) for name in ("body", "body_crc", "sys_flag")}
    assert replace(found, **same) == original
    assert plain(found) == original


@pytest.mark.parametrize(
    ("body", "sys_flag", "over"),
    [
        (TEXT, 0, len(TEXT) + 1),
        (random.Random(1).randbytes(5000), 0, 1),
        (b"", 0, 1),
        (compress(TEXT, 0x301), 0x301, 1),
        (b"whatever", 0x501, 1),
    ],
    ids=["short", "random", "empty", "compressed", "unknown"],
)
def test_what_stays_as_it_is(body: bytes, sys_flag: int, over: int) -> None:
    """Too short, not smaller for it, or compressed by its producer."""
    original = message(body, sys_flag)
    assert BodyCompression("zstd", over)(original) is original


def test_from_that_size_on() -> None:
    assert BodyCompression("zstd", len(TEXT))(message(TEXT)).sys_flag == 0x201


def test_what_cannot_be_undone_stays() -> None:
    unknown, cut, damaged = message(b"?", 0x401), message(compress(TEXT, 1)[:-4], 1), message(compress(TEXT, 1), 1)
    damaged.body_crc += 1
    for each in (unknown, cut, damaged, message(TEXT)):
        assert plain(each) is each


def test_after_a_transform() -> None:
    """Which sees the body as it was, and may leave a message out."""

    def upper(_topic: str, _queue: Queue, given: StoredMessage) -> StoredMessage | None:
        return None if given.content == b"" else message(given.content.upper())

    outgoing = RouteOptions(
        identity=Identity("s", "t"), transform=upper, compression=BodyCompression("zlib", 1)
    ).outgoing
    assert outgoing is not None
    found = outgoing("t", Queue("b", 0), message(TEXT))
    assert found is not None
    assert decompress(found.content, found.sys_flag) == TEXT.upper()
    assert outgoing("t", Queue("b", 0), message(b"")) is None


def test_nothing_to_do() -> None:
    assert RouteOptions(identity=Identity("s", "t")).outgoing is None
