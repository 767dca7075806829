"""What REST answers about brokers, as `answers` says of the rest."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from replicator.api.answer import Answer
from replicator.api.answers import Queue

__all__ = ["KnownBroker", "RemovalReport", "RemovedQueue"]


class KnownBroker(Answer):
    """A broker that is there, was there, or is in a queue map."""

    side: Literal["source", "target"]
    broker: str
    state: Annotated[
        Literal["ONLINE", "SILENT", "NO_MASTER", "AWAY", "FORGOTTEN", "UNKNOWN"],
        Field(
            description="SILENT: its master does not answer; NO_MASTER: only slaves are listed; AWAY: the name"
            " servers do not list it, and it is waited for; UNKNOWN: the name servers do not answer"
        ),
    ]
    master: Annotated[str, Field(description="its master's address; empty: there is none")]
    queues: Annotated[int, Field(description="queues that are copied from it, or to it")]
    forgotten_at: Annotated[
        float | None, Field(description="in seconds since the epoch; null: it is not forgotten")
    ]


class RemovedQueue(Answer):
    """A queue that was copied from or to a broker that is given up."""

    connector: str
    topic: str
    source: Queue
    target: Queue
    moved_to: Annotated[Queue | None, Field(description="where it is copied to from now on; null: it is not moved")]
    position: Annotated[int | None, Field(description="the next offset to copy; null: nothing was copied")]
    copied_until: Annotated[
        float | None,
        Field(description="when the source stored the last message that was copied, in seconds since the epoch"),
    ]
    copies: Annotated[int, Field(description="copies that the target has, or had, as far as they are known")]


class RemovalReport(Answer):
    """What giving up a broker means."""

    side: Literal["source", "target"]
    broker: str
    queues_to: Annotated[str, Field(description="the target broker that takes its queues; empty: none has to")]
    lost: Annotated[
        Literal["resend", "skip"] | None, Field(description="what becomes of its copies; null: it had none")
    ]
    dry_run: Annotated[bool, Field(description="nothing was changed: what would be done now")]
    queues: list[RemovedQueue]
    copies: Annotated[int, Field(description="copies that were at a target broker alone")]
    topics_gone: Annotated[list[str], Field(description="copied topics that no other source broker has")]
