"""Bodies in each of RocketMQ's ways of compression: whole, damaged, cut off, and too large."""

from __future__ import annotations

import lz4.frame
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import ProtocolError
from replicator.protocol.compression import SYS_FLAGS, compress, decompress, head_of, is_compressed

WAYS = [*SYS_FLAGS.values(), 0x301]


@pytest.mark.parametrize("way", WAYS, ids=hex)
@given(body=st.binary(max_size=3000))
def test_there_and_back(way: int, body: bytes) -> None:
    packed = compress(body, way)
    assert decompress(packed, way) == body
    assert head_of(packed, way, 10) == body[:10]


@given(body=st.binary(max_size=100))
def test_what_is_not_compressed_stays(body: bytes) -> None:
    assert not is_compressed(0x200)  # the type alone says nothing
    assert compress(body, 0x200) is decompress(body, 0x200) is body
    assert head_of(body, 0, 10) == body[:10]


@pytest.mark.parametrize("way", WAYS, ids=hex)
def test_one_that_is_cut_off(way: int) -> None:
    packed = compress(b"text" * 100, way)
    with pytest.raises(ProtocolError, match="is cut off"):
        decompress(packed[:-5], way)
    with pytest.raises(ProtocolError, match="is cut off"):
        head_of(packed[:-5], way, 1000)


@pytest.mark.parametrize("way", WAYS, ids=hex)
def test_one_that_is_damaged(way: int) -> None:
    with pytest.raises(ProtocolError, match="cannot be decompressed"):
        decompress(b"neither of these", way)


@pytest.mark.parametrize("way", WAYS, ids=hex)
def test_one_that_is_too_large(way: int) -> None:
    """A few kilobytes of it are read from a frame that would fill all memory."""
    packed = compress(bytes(65 * 2**20), way)
    with pytest.raises(ProtocolError, match="has more than 67108864 bytes"):
        decompress(packed, way)
    assert head_of(packed, way, 2000) == bytes(2000)


def test_a_frame_that_wants_much_memory_is_refused() -> None:
    """It may say of itself that it looks back further than any body is long."""
    greedy: dict[int, int] = {
        zstd.CompressionParameter.window_log: 27,
        zstd.CompressionParameter.content_size_flag: 0,
    }
    packer = zstd.ZstdCompressor(options=greedy)
    with pytest.raises(ProtocolError, match="cannot be decompressed"):
        decompress(packer.compress(b"text") + packer.flush(), 0x201)


@pytest.mark.parametrize("way", [0x101, 0x201], ids=hex)
def test_frames_that_follow_one_another_are_one_body(way: int) -> None:
    """As to Java's streams; other bytes that follow are not passed over."""
    packed = compress(b"one ", way) + compress(b"two", way)
    assert decompress(packed, way) == b"one two"
    assert [head_of(packed, way, most) for most in (2, 4, 6, 9)] == [b"on", b"one ", b"one tw", b"one two"]
    with pytest.raises(ProtocolError, match="is cut off"):
        decompress(packed[:-5], way)
    with pytest.raises(ProtocolError, match="cannot be decompressed"):
        decompress(packed + b"other bytes", way)


@pytest.mark.parametrize("way", [0x401, 0x501, 0x601, 0x701], ids=hex)
def test_a_way_that_no_client_has(way: int) -> None:
    with pytest.raises(ProtocolError, match="compressed in an unknown way"):
        decompress(b"?", way)


def test_others_read_what_is_compressed_here() -> None:
    assert lz4.frame.decompress(compress(b"text", 0x101)) == zstd.decompress(compress(b"text", 0x201)) == b"text"
