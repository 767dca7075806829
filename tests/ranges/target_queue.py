"""A target broker without a network, with one queue that can be tampered with, for unit tests of the audit."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.protocol.batch import size_of, unpack
from replicator.protocol.codes import Response
from replicator.protocol.frame import Frame
from replicator.protocol.message import StoredMessage
from replicator.ranges import auditor as module
from replicator.ranges.auditor import StreamAuditor
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.packing import Packer
from replicator.routing.provenance import Stamp
from replicator.routing.queue_map import Queue
from replicator.routing.state import QueueState
from tests.protocol.test_message import stored

__all__ = ["MADE", "QUEUE", "AuditedQueue", "TargetQueue", "message"]

QUEUE = Queue("a", 0)
#: What brokers append to each message of a batch.
MADE = (b"", b"CLUSTER\x01west\x02", b"MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01west")


def message(offset: int, *, body: bytes = b"body", properties: bytes = b"KEYS\x01k\x02") -> StoredMessage:
    """Of the source queue."""
    crc = zlib.crc32(body) & 0x7FFFFFFF
    return StoredMessage(
        offset, 7, 0, 5, 1_700_000_000_000 + offset, 0, crc, len(body).to_bytes(4) + body, properties
    )


class TargetQueue:
    """Has `messages`, as a pull brings them, or None where one is gone, from offset `low` on.

    `shown` of them are shown. The broker fails at pulls that meet one of `refusing`, and at all with `failing`.
    """

    address = "target:10911"

    def __init__(self, *, low: int = 0, made: bytes = MADE[1]) -> None:
        self.low = low
        self.messages: list[bytes | None] = [None] * low
        self.made = made
        self.shown: int | None = None
        self.pulls = 0
        self.failing: Exception | None = None
        self.refusing: set[int] = set()

    @property
    def end(self) -> int:
        return len(self.messages) if self.shown is None else self.shown

    def store(self, body: bytes, properties: bytes, *, flag: int = 7, sys_flag: int = 0, times: int = 0) -> None:
        """Appends a message."""
        data = stored(
            body=body,
            properties=properties + self.made,
            offset=len(self.messages),
            sys_flag=sys_flag,
            numbers=(flag, 1, times),
        )
        crc = (zlib.crc32(body) & 0x7FFFFFFF).to_bytes(4)
        self.messages.append(data[:8] + crc + data[12:])

    def move(self, at: int, to: int) -> None:
        """Has the message at one offset at another one, too."""
        found = self.messages[at]
        assert found is not None
        self.messages[to] = found[:20] + to.to_bytes(8) + found[28:]

    def flip(self, at: int, byte: bytes) -> None:
        """Changes the first `byte` of a message to another one."""
        found = self.messages[at]
        assert found is not None
        assert byte in found
        self.messages[at] = found.replace(byte, bytes([byte[0] ^ 1, *byte[1:]]), 1)

    async def invoke(self, code: int, fields: Mapping[str, str], **_more: Any) -> Frame:
        self.pulls += 1
        if self.failing is not None:
            raise self.failing
        await asyncio.sleep(0)
        at, count = int(fields["queueOffset"]), min(32, int(fields["maxMsgNums"]))
        if at < self.low or at > self.end:
            return self._say(Response.PULL_OFFSET_MOVED, self.low if at < self.low else self.end)
        if self.refusing & set(range(at, at + count)):
            return self._say(Response.SYSTEM_ERROR, at)
        found, last = b"", at
        while last < self.end and count:
            each = self.messages[last]
            last += 1
            if each is not None:
                found += each
                count -= 1
        if not found:
            return self._say(Response.PULL_NOT_FOUND if last == at else Response.PULL_RETRY_IMMEDIATELY, last)
        return self._say(Response.SUCCESS, last, found)

    def _say(self, code: int, next_offset: int, body: bytes = b"") -> Frame:
        ends = {"nextBeginOffset": next_offset, "minOffset": self.low, "maxOffset": self.end}
        return Frame(code, 1, 1, "", {name: str(value) for name, value in ends.items()}, body)


class AuditedQueue:
    """A queue whose source messages are sent to `target` by `send`, as sink tasks do it, and audited."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, target: TargetQueue, **options: Any) -> None:
        self.target = target
        self.source: list[StoredMessage] = []
        self.gone_before = 0
        self.state = QueueState("T", QUEUE, Queue("b", 0), route="route")
        given: dict[str, Any] = {"audit_share": 1.0} | options
        self.shared: Any = SimpleNamespace(
            options=RouteOptions(identity=Identity("east", "west"), **given), source=None
        )
        self.clock = 1000.0
        self.events: list[Mapping[str, Any]] = []
        self.auditor = StreamAuditor(self.events.append)
        self._packer = Packer(Stamp("east", *QUEUE), topic="T", limit=10**7, max_messages=1000, exact_born=False)
        self.auditor.add(self)
        monkeypatch.setattr(module, "now", lambda: self.clock)
        monkeypatch.setattr(module, "RangeReader", self._read)

    def target_place(self) -> tuple[Any, str, int]:
        return self.target, "T", 0

    def send(self, messages: Sequence[StoredMessage], *, told: bool = True) -> None:
        """Stores copies at the target; `told`: it has acknowledged them."""
        self.source += messages
        state, position = self.state, messages[-1].queue_offset + 1
        packs = self._packer.pack(messages, copies=False)
        start = len(self.target.messages)
        for pack in packs:
            at, flags = 0, {"sys_flag": pack.sys_flag, "times": pack.reconsume_times}
            while at < len(pack.data):
                size = size_of(pack.data, at)
                _, flag, body, properties = unpack(pack.data[at : at + size])
                self.target.store(body[4:], properties, flag=flag, **flags)
                at += size
        if told:
            state.audit.sent(packs, start, position, self.clock)
            for i, each in enumerate(messages):
                state.progress.offsets.add(each.queue_offset, start + i, 1)
            state.progress.position = position

    async def audit(self, *, seconds: float = 10.0) -> list[tuple[str, int | None, int | None]]:
        """Lets so many seconds pass, and reads all back that is due; what was named meanwhile."""
        before = len(self.events)
        until = self.clock + seconds
        while self.clock < until:
            self.clock += min(2.5, until - self.clock)
            async with asyncio.TaskGroup() as readers:
                await self.auditor._turn(readers)
        return [(each["kind"], each["source_offset"], each["target_offset"]) for each in self.events[before:]]

    def _read(self, _cluster: object, _topic: str, _queue: Queue, start: int, end: int, **_more: object) -> Any:
        start = max(start, self.gone_before)
        found = [each for each in self.source if start <= each.queue_offset < end]

        async def chunks() -> AsyncIterator[list[StoredMessage]]:
            yield found

        return SimpleNamespace(chunks=chunks, gaps=self.gone_before)
