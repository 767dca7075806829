"""What can happen to one queue on the way, as exceptions that say what must be done next."""

from __future__ import annotations

import re

from replicator.client.refused import wrong_account
from replicator.errors import BrokerRefused, ProtocolError, ReplicatorError, RequestTimeout, Unreachable
from replicator.protocol.codes import Response, is_denied

__all__ = [
    "Drained",
    "LeaseLost",
    "MessageRejected",
    "OutcomeUnknown",
    "QueueFailed",
    "SourceEnded",
    "SourceGap",
    "SourceLost",
    "SourceReset",
    "StoredElsewhere",
    "TargetBlocked",
    "TargetChanged",
    "TransformRefused",
    "classify_refusal",
    "code_of",
    "kind_of",
]


class Fault(ReplicatorError):
    """`code` is what the broker answered, by name, or why it did not; empty where there is none."""

    def __init__(self, message: str, *, hint: str = "", code: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class Drained(ReplicatorError):
    """All that was pulled is settled, and no more is to be pulled."""


class SourceLost(Fault):
    """The source broker cannot be pulled from now: continue at the position later."""


class SourceEnded(ReplicatorError):
    """All messages before the end that was asked for are in the channel."""


class SourceGap(ReplicatorError):
    """Messages [`start`, `end`) are gone from the source before they were read."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__(
            f"the source no longer has the {end - start} messages at offsets {start} to {end - 1}",
            hint="on_gap=skip continues after them",
        )
        self.start = start
        self.end = end


class SourceReset(ReplicatorError):
    """What was before the position `position` is not what was copied: truncated or recreated.

    The queue ends at `max_offset` now, which may be after the position again.
    """

    def __init__(self, position: int, min_offset: int, max_offset: int) -> None:
        if max_offset < position:
            what = f"the source queue ends at offset {max_offset}, before the position {position}"
        else:
            what = f"the source queue has other messages than those copied before the position {position}"
        super().__init__(
            f"{what}: it was truncated, or deleted and recreated",
            hint="on_gap=skip continues with what it has now",
        )
        self.position = position
        self.min_offset = min_offset
        self.max_offset = max_offset


class LeaseLost(ReplicatorError):
    """This worker may not send now: end, and let the group decide who continues."""


class TargetBlocked(Fault):
    """The target takes nothing now, and nothing of the last send was stored: try again, later."""


class OutcomeUnknown(Fault):
    """Whether the last send was stored is unknown: the target queue's tail must be read."""


class StoredElsewhere(Fault):
    """The target has stored the last send, but behind something that was not in the tail: it must be read."""


class TargetChanged(Fault):
    """The target must be checked before anything is sent: the connection over which it was checked is gone, or the
    target queue is not as it was left.
    """


class MessageRejected(Fault):
    """The target will never take this message as it is."""


class TransformRefused(ReplicatorError):
    """A transform did not take this message, or what it made of it cannot be sent."""


class QueueFailed(ReplicatorError):
    """By policy the queue stops until the cause is fixed."""


_NOT_STORED = frozenset({Response.SYSTEM_BUSY, Response.SERVICE_NOT_AVAILABLE, Response.NO_PERMISSION})
_MISSING = frozenset({Response.TOPIC_NOT_EXIST, Response.INVALID_PARAMETER})

#: Remarks of code 1 that mean the message: 5.x throws, and 4.9.7 does for properties (measured).
_ABOUT_THE_MESSAGE = ("size exceeded", "newPosition", "IllegalArgumentException", "BufferOverflow", "NumberFormat")

#: Remarks of code 1 that mean the disk: nothing is stored when the next file of the commit log cannot be made.
_ABOUT_THE_DISK = "create mapped file failed"

#: A remark of code 1 that means the replicas: nothing is stored while fewer than `minInSyncReplicas` are in sync.
_ABOUT_REPLICAS = "in-sync replicas not enough"

_HINTS = {
    Response.SYSTEM_BUSY: "the target is busy",
    Response.SERVICE_NOT_AVAILABLE: "its disk may be full, or it is not a master",
    Response.NO_PERMISSION: "the replicator's account needs PUB on the topic, and the broker write permission",
    Response.TOPIC_NOT_EXIST: "the target's topic or queue no longer exists; it is recreated",
    Response.INVALID_PARAMETER: "the target's topic or queue no longer exists; it is recreated",
}


#: Errors without an answer.
_SILENT = {Unreachable: "unreachable", RequestTimeout: "timeout", ProtocolError: "protocol"}


def code_of(error: BaseException) -> str:
    """What an error of a client is called in metrics: the response code's name, or why there is none."""
    if isinstance(error, BrokerRefused):
        try:
            return Response(error.code).name.lower()
        except ValueError:
            return str(error.code)
    if isinstance(error, Fault):
        return error.code
    return next((code for kind, code in _SILENT.items() if isinstance(error, kind)), "")


def kind_of(error: BaseException) -> str:
    """What an error meant for the queue, as metrics call it."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()


def classify_refusal(error: BrokerRefused) -> Fault:
    """What a refused send means: `TargetBlocked`, `MessageRejected` or `OutcomeUnknown`."""
    code = code_of(error)
    if hint := wrong_account(error.remark, "target"):  # as with missing rights, before anything is stored
        return TargetBlocked(error.message, hint=hint, code=Response.NO_PERMISSION.name.lower())
    if error.code in _NOT_STORED:
        return TargetBlocked(error.message, hint=_HINTS[Response(error.code)], code=code)
    if error.code in _MISSING:
        return OutcomeUnknown(error.message, hint=_HINTS[Response(error.code)], code=code)
    if error.code == Response.MESSAGE_ILLEGAL:
        return MessageRejected(error.message, code=code)
    if error.code == Response.SYSTEM_ERROR:
        return _by_remark(error, code)
    return OutcomeUnknown(error.message, code=code)


def _by_remark(error: BrokerRefused, code: str) -> Fault:
    """What a system error means: only its remark tells."""
    if is_denied(error.code, error.remark):  # before anything is stored
        denied = Response.NO_PERMISSION
        return TargetBlocked(error.message, hint=_HINTS[denied], code=denied.name.lower())
    if _ABOUT_THE_DISK in error.remark:
        return TargetBlocked(error.message, hint=_HINTS[Response.SERVICE_NOT_AVAILABLE], code=code)
    if _ABOUT_REPLICAS in error.remark:
        return TargetBlocked(error.message, hint="replicas of the target broker are away", code=code)
    if any(words in error.remark for words in _ABOUT_THE_MESSAGE):
        return MessageRejected(error.message, code=code)
    if "queueId" in error.remark:
        return OutcomeUnknown(error.message, hint=_HINTS[Response.INVALID_PARAMETER], code=code)
    return OutcomeUnknown(error.message, code=code)
