"""Reads what a target queue has of a segment back, and holds it to the checksum of what was sent."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple

from replicator.client.endpoint import Endpoint
from replicator.client.pull import MAX_PULL, Pulled, pull
from replicator.errors import BrokerRefused, ClientError, ProtocolError, RequestTimeout
from replicator.protocol.batch import KEPT_SYS_FLAGS
from replicator.protocol.codes import Response
from replicator.protocol.message import StoredMessage
from replicator.protocol.uniform_run import UniformRun, sent_as
from replicator.routing.audit_segment import Segment, header_sum

__all__ = ["Outcome", "Stored", "read_back", "stored"]

Place = tuple[Endpoint, str, int]


class Outcome(Enum):
    """How a segment looks at the target."""

    SAME = auto()
    DIFFERS = auto()
    #: Retention has deleted some of it.
    GONE = auto()
    #: The queue ends before it does: the broker does not show all yet, or has lost it.
    UNSHOWN = auto()


class Stored(NamedTuple):
    """What a target queue has of a range: `outcome` is GONE, UNSHOWN, or SAME if it is read to its end.

    `broken` says of the offsets of messages that cannot be parsed, or that the broker fails at, why not.
    """

    messages: list[StoredMessage]
    broken: dict[int, str]
    outcome: Outcome
    pulls: int


async def read_back(place: Place, segment: Segment) -> tuple[Outcome, int]:
    """Compares the checksums of `segment`.

    Args:
        place: the target queue's master, topic and number.

    Returns:
        also how many pulls it took.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: it cannot be read.
    """
    at, crc, headers, pulls = segment.start, segment.before, 0, 0
    while at < segment.end:
        pulls += 1
        try:
            pulled = await pull(*place, at, count=min(segment.end - at, MAX_PULL))
        except ProtocolError:
            return Outcome.DIFFERS, pulls
        if (ended := _ended(pulled, at)) is not None:
            return ended, pulls
        messages = pulled.messages
        if not _follow_one_another(messages, at):
            return Outcome.DIFFERS, pulls
        crc = zlib.crc32(sent_as(messages), crc)
        headers += _headers(messages)
        at += len(messages)
    same = (crc, headers) == (segment.crc, segment.headers)
    return Outcome.SAME if same else Outcome.DIFFERS, pulls


async def stored(place: Place, start: int, end: int, *, singly: bool = False) -> Stored:
    """The messages at offsets [start, end) of a target queue; one that is missing in between is left out.

    Args:
        singly: asks for one at a time, so that one that the broker fails at does not hide the others.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: it cannot be read.
    """
    found, broken = list[StoredMessage](), dict[int, str]()
    failed: ClientError | None = None
    at, pulls, single_to = start, 0, end if singly else start
    while at < end:
        pulls += 1
        try:
            pulled = await pull(*place, at, count=1 if at < single_to else min(end - at, MAX_PULL))
        except ProtocolError as error:  # one of them cannot be parsed: they are read one by one
            if at < single_to:
                broken[at] = str(error)
                at += 1
            else:
                single_to = min(end, at + MAX_PULL)
            continue
        except (BrokerRefused, RequestTimeout) as error:
            if not singly:
                raise
            failed, broken[at] = error, str(error)
            at += 1
            continue
        ended = _ended(pulled, at)
        if ended is Outcome.GONE or ended is Outcome.UNSHOWN:
            return Stored(found, broken, ended, pulls)
        found += [message for message in pulled.messages if at <= message.queue_offset < end]
        at = max(pulled.next_offset, at + 1)
    if failed is not None and not found:  # it is not the messages
        raise failed
    return Stored(found, broken, Outcome.SAME, pulls)


def _ended(pulled: Pulled, at: int) -> Outcome | None:
    """Why there is nothing at offset `at`; None if there is something, or nothing only there."""
    if pulled.code == Response.PULL_OFFSET_MOVED:
        return Outcome.GONE if at < pulled.min_offset else Outcome.UNSHOWN
    if pulled.messages:
        return None
    return Outcome.UNSHOWN if pulled.next_offset <= at else Outcome.DIFFERS


def _follow_one_another(messages: Sequence[StoredMessage], at: int) -> bool:
    if isinstance(messages, UniformRun):
        return messages.offset == at
    return all(message.queue_offset == at + i for i, message in enumerate(messages))


def _headers(messages: Sequence[StoredMessage]) -> int:
    if isinstance(messages, UniformRun):
        return header_sum(len(messages), messages.sys_flag, messages.reconsume_times)
    return sum(header_sum(1, message.sys_flag & KEPT_SYS_FLAGS, message.reconsume_times) for message in messages)
