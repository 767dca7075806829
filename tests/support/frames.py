"""Remoting frames as the fault proxy sees them: cut from a stream, read, and answers picked to be lost."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

_BINARY_HEADER = struct.Struct(">HBHii")


@dataclass(frozen=True, slots=True)
class Frame:
    """What one frame of the remoting protocol says about itself; `up` means towards the broker."""

    up: bool
    code: int
    flag: int
    opaque: int
    size: int
    data: bytes = field(default=b"", repr=False, compare=False)

    @property
    def answer(self) -> bool:
        return bool(self.flag & 1)

    @property
    def body(self) -> bytes:
        """What is behind the header."""
        return self.data[8 + (int.from_bytes(self.data[4:8], "big") & 0xFFFFFF) :]


def frame(code: int, opaque: int, *, flag: int = 0, body: bytes = b"") -> bytes:
    """One as a client or a broker would send it."""
    header = json.dumps({"code": code, "flag": flag, "opaque": opaque, "language": "PYTHON"}).encode()
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


class Swallow:
    """Requests that `matches` picks reach the broker; the first `times` answers to them do not come back."""

    def __init__(self, matches: Callable[[Frame], bool], times: int) -> None:
        self.matches = matches
        self.left = times
        self.swallowed: list[Frame] = []
        self._news = asyncio.Event()

    async def wait(self, count: int = 1) -> None:
        """Returns when `count` answers have been swallowed."""
        while len(self.swallowed) < count:
            self._news.clear()
            await self._news.wait()

    def take(self, frame: Frame) -> None:
        self.swallowed.append(frame)
        self._news.set()


def read_frame(data: bytes, *, up: bool) -> Frame:
    """The facts of one whole frame, length field included."""
    word = int.from_bytes(data[4:8], "big")
    header = data[8 : 8 + (word & 0xFFFFFF)]
    if word >> 24:
        code, _, _, opaque, flag = _BINARY_HEADER.unpack_from(header)
    else:
        fields = json.loads(header)
        code, opaque, flag = fields["code"], fields["opaque"], fields["flag"]
    return Frame(up, code, flag, opaque, len(data), data)


class Cutter:
    """Cuts a stream into whole frames and leaves out those for which `keep` says no."""

    def __init__(self, keep: Callable[[bytes], bool]) -> None:
        self._keep = keep
        self._rest = b""

    def cut(self, data: bytes) -> bytes:
        data = self._rest + data if self._rest else data
        begin, out = 0, []
        while len(data) - begin >= 4:
            end = begin + 4 + int.from_bytes(data[begin : begin + 4], "big")
            if end > len(data):
                break
            frame = data[begin:end]
            if self._keep(frame):
                out.append(frame)
            begin = end
        self._rest = data[begin:]
        return b"".join(out)
