"""Frames are cut from a stream however it is torn, and read whatever their header is written in."""

from __future__ import annotations

import struct

import pytest

from tests.support.frames import Cutter, Frame, frame, read_frame

PULL = 11


def test_a_binary_header_is_read_too() -> None:
    header = struct.pack(">HBHii", 310, 0, 453, 77, 2) + struct.pack(">II", 0, 0)
    data = struct.pack(">II", 4 + len(header), 1 << 24 | len(header)) + header
    assert read_frame(data, up=True) == Frame(True, 310, 2, 77, len(data))


@pytest.mark.parametrize("step", [1, 5, 64, 10_000])
def test_the_cutter_finds_frames_however_they_are_torn(step: int) -> None:
    frames = [frame(PULL, i, body=bytes(i)) for i in range(40)]
    kept: list[bytes] = []

    def keep(data: bytes) -> bool:
        kept.append(data)
        return len(kept) % 2 == 0

    stream, cutter = b"".join(frames), Cutter(keep)
    out = b"".join(cutter.cut(stream[begin : begin + step]) for begin in range(0, len(stream), step))
    assert kept == frames
    assert out == b"".join(frames[1::2])
