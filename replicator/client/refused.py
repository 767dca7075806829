"""The error for an answer that refuses a request: it names request and code as RocketMQ does."""

from __future__ import annotations

from typing import Final

from replicator.errors import BrokerRefused, named
from replicator.observe.printable import printable
from replicator.protocol.codes import Request, Response
from replicator.protocol.frame import Frame

__all__ = ["code_in", "refused", "remark_in"]

#: Characters of a remark. Brokers remark an exception, with the lines that led to it at most.
_REMARK: Final = 5_000


def refused(address: str, request: int, answer: Frame, *, hint: str = "") -> BrokerRefused:
    """What `answer` to `request` is; its code is a `Response` where that has it."""
    return BrokerRefused(address, _of(Request, request), _of(Response, answer.code), remark_in(answer), hint=hint)


def remark_in(answer: Frame) -> str:
    """What the peer has remarked, as much of it as errors show: it gets into records, logs and terminals."""
    return printable(answer.remark[:_REMARK])


def code_in(answer: Frame) -> str:
    """The code of an answer, as errors have it: `SYSTEM_BUSY (2)`, or `code 99` of one without a name here."""
    return named(_of(Response, answer.code), "code")


def _of(codes: type[Request | Response], code: int) -> int:
    try:
        return codes(code)
    except ValueError:
        return code
