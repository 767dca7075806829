"""What REST answers about messages that wait at the source; see `answers`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from replicator.api.answer import Answer

__all__ = ["Pending", "Released"]


class PendingOfTopic(Answer):
    topic: str
    kind: Annotated[
        Literal["delay", "timer", "transaction", "retry", "dead-letter"],
        Field(
            description="of a delay level, in the timer, half messages of transactions, or in a retry or"
            " dead-letter topic that is not copied"
        ),
    ]
    messages: int
    parked: Annotated[
        Literal["all", "behind", "off"] | None,
        Field(
            description="at the target, where a failover releases them: all, not all yet, or not without pending in"
            " `sync`; null for a kind that cannot be parked"
        ),
    ]


class Pending(Answer):
    """What the source's brokers hold back; it is copied once they have delivered it.

    What is in groups' retry and dead-letter topics is not, where these are not copied. It does not make unready.
    """

    messages: list[PendingOfTopic]
    uncounted: Annotated[
        int, Field(description="messages, of any topic, that could not be read: half messages of 4.9, or too many")
    ]
    problems: Annotated[list[str], Field(description="what is not known, and why")]
    lost: Annotated[list[str], Field(default_factory=list, description="what is lost with a source that is dead")]


class NotReleased(Answer):
    topic: str
    messages: int
    reason: str


class Released(Answer):
    """Parked messages: what a failover has released of them at the target, and why not the others."""

    overdue: Annotated[int, Field(description="sent late, at once")]
    on_time: Annotated[int, Field(description="sent when they were due")]
    in_timer: Annotated[int, Field(description="given to the timers of the target's brokers")]
    waiting: Annotated[int, Field(description="this worker sends them when they are due")]
    until: Annotated[float | None, Field(description="when the last of these is due, in seconds since the epoch")]
    released_before: Annotated[int, Field(description="found released: by an earlier failover")]
    recalled: int
    delivered: Annotated[int, Field(description="delivered by the source, and copied")]
    not_released: list[NotReleased]
