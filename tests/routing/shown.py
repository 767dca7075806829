"""A broker without a network that shows one queue, for unit tests of whoever reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from replicator.observe.logging import get_logger
from replicator.protocol.codes import Request, Response
from replicator.protocol.frame import Frame
from replicator.routing.shared import Shared
from replicator.routing.source_side import BrokerSource, SourceSide
from replicator.routing.state import QueueState
from replicator.routing.target_check import TargetCheck
from tests.support.stored import stored

__all__ = ["Shown", "check_of", "copy_of"]


class Shown:
    """Shows messages of these properties from offset `low` on; `asked` are (offset, count) of all pulls.

    `answers` are given instead, one after another, as long as there are any: a frame, or an error to raise.
    """

    address = "target:10911"

    def __init__(self, *queue: bytes, low: int = 0) -> None:
        self.queue = list(queue)
        self.low = low
        self.asked: list[tuple[int, int]] = []
        self.answers: list[Frame | Exception] = []

    async def invoke(self, code: int, fields: Mapping[str, str], **_more: Any) -> Frame:
        assert code == Request.PULL_MESSAGE
        start, count, end = int(fields["queueOffset"]), int(fields["maxMsgNums"]), len(self.queue)
        self.asked.append((start, count))
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        if start < self.low or start > end:
            return self.say(Response.PULL_OFFSET_MOVED, self.low if start < self.low else end)
        found = range(start, min(start + count, end))
        body = b"".join(stored(i, properties=self.queue[i]) for i in found)
        return self.say(Response.SUCCESS if found else Response.PULL_NOT_FOUND, start + len(found), body)

    async def ask(self, code: int, fields: Mapping[str, str]) -> Frame:
        assert code == Request.GET_MAX_OFFSET
        return Frame(0, 1, 1, "", {"offset": str(len(self.queue))}, b"")

    def say(self, code: int, next_offset: int = 0, body: bytes = b"") -> Frame:
        """An answer to a pull."""
        ends = {"nextBeginOffset": next_offset, "minOffset": self.low, "maxOffset": len(self.queue)}
        return Frame(code, 1, 1, "", {name: str(value) for name, value in ends.items()}, body)


def copy_of(offset: int) -> bytes:
    """The properties of a copy from cluster `s`, queue a/0, stored there at 7 ms."""
    return b"__RPL_ORIGIN\x01s\x02__RPL_SOURCE\x01s/a/0/%d/7\x02" % offset


def check_of(state: QueueState, shared: Shared, source: object = None) -> TargetCheck:
    """The check of the queue at the target, with `source` or the source cluster's broker as its source."""
    broker = BrokerSource(state, shared, from_start=False, end=None)
    return TargetCheck(state, shared, "T", cast("SourceSide", source or broker), get_logger(__name__))
