"""The server's end of remoting connections: requests out of bytes, answers into bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from replicator.protocol.frame import ONE_WAY, Frame, FrameDecoder
from tests.simulation.network import Wire

__all__ = ["Answer", "RemotingSession"]

_encode = msgspec.json.Encoder().encode


class Answer(msgspec.Struct, gc=False):
    """What a server says."""

    code: int = 0
    remark: str | None = None
    fields: Mapping[str, str] = {}
    body: bytes = b""

    def encoded(self, opaque: int) -> bytes:
        header: dict[str, Any] = {"code": self.code, "flag": 1, "language": "JAVA", "opaque": opaque}
        if self.remark:
            header["remark"] = self.remark
        header |= {"serializeTypeCurrentRPC": "JSON", "version": 400}
        if self.fields:
            header["extFields"] = self.fields
        head = _encode(header)
        return struct.pack(">II", 4 + len(head) + len(self.body), len(head)) + head + self.body


class RemotingSession:
    """One connection; `serve` is called with each request."""

    def __init__(self, wire: Wire, serve: Callable[[RemotingSession, Frame], None]) -> None:
        self.wire = wire
        self.alive = True
        self._serve = serve
        self._decoder = FrameDecoder()

    def received(self, data: bytes) -> None:
        while data:
            room = self._decoder.room()
            size = min(len(room), len(data))
            room[:size], data = data[:size], data[size:]
            for frame in self._decoder.take(size):
                if not frame.is_response:
                    self._serve(self, frame)

    def lost(self) -> None:
        self.alive = False

    def answer(self, request: Frame, answer: Answer) -> None:
        if self.alive and not request.flag & ONE_WAY:
            self.wire.down.send(answer.encoded(request.opaque))
