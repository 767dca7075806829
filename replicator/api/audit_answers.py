"""What REST answers about the audit; see `answers`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from replicator.api.answer import Answer

__all__ = ["AuditDifference", "DifferenceInQueue", "Differences", "QueueAudit", "TopicAudit", "VerifiedTo"]

#: Of a queue, as its status and its mapping have it.
VerifiedTo = Annotated[
    int | None,
    Field(description="all copies before this source offset are verified, or counted as unverified; null: none is"),
]
Differences = Annotated[dict[str, int], Field(description="messages that are not as they were sent, by kind")]


class AuditDifference(Answer):
    """A message that is not at the target as it was sent; an offset is null if that side has no such message."""

    kind: Annotated[str, Field(description="as of `verify`; `changed`: its bytes, or some of those from there on")]
    source: int | None
    target: int | None
    detail: str


class DifferenceInQueue(AuditDifference):
    """A difference, and its target queue."""

    queue: Annotated[str, Field(description="broker/queue at the target")]


class QueueAudit(Answer):
    """How far a source queue is verified."""

    broker: str
    queue: int
    position: Annotated[int | None, Field(description="the next offset to copy; null: nothing was copied")]
    verified_to: VerifiedTo


class TopicAudit(Answer):
    """How far the copies of a topic are verified, and what differs at the target."""

    topic: str
    not_verified: Annotated[int, Field(description="source offsets that are copied and were not read back yet")]
    differences: Differences
    latest: Annotated[list[DifferenceInQueue], Field(description="the last five")]
    queues: list[QueueAudit]
