"""What REST answers about messages that wait at the source; see `answers`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from replicator.api.answer import Answer

__all__ = ["Pending"]


class PendingOfTopic(Answer):
    topic: str
    kind: Annotated[
        Literal["delay", "timer", "transaction"],
        Field(description="of a delay level, in the timer, or half messages of transactions"),
    ]
    messages: int


class Pending(Answer):
    """What the source's brokers hold back; it is copied once they have delivered it. It does not make unready."""

    messages: list[PendingOfTopic]
    uncounted: Annotated[
        int, Field(description="messages, of any topic, that could not be read: half messages of 4.9, or too many")
    ]
    problems: Annotated[list[str], Field(description="what is not known, and why")]
