"""One difference between the target and what the source wants of it, and the write that ends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from replicator.client.topics import TopicConfig

__all__ = [
    "Action",
    "Commit",
    "DropGroup",
    "DropOrder",
    "DropTopic",
    "Forbid",
    "SetMode",
    "Unasked",
    "Write",
    "WriteGroup",
    "WriteOrder",
    "WriteTopic",
]


@dataclass(frozen=True, slots=True)
class WriteTopic:
    """Makes a topic what `config` says; of its attributes only those stand there that are to be set."""

    config: TopicConfig
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DropTopic:
    """Deletes a topic with its messages."""

    name: str


@dataclass(frozen=True, slots=True)
class WriteOrder:
    """Makes `queues` the order configuration of a topic at a name server."""

    topic: str
    queues: str


@dataclass(frozen=True, slots=True)
class DropOrder:
    """Deletes the order configuration of a topic at a name server."""

    topic: str


@dataclass(frozen=True, slots=True)
class WriteGroup:
    """Makes a group what `config` says."""

    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DropGroup:
    """Deletes a group with its offsets."""

    name: str


@dataclass(frozen=True, slots=True)
class Forbid:
    """Forbids a group to read a topic, or allows it again."""

    group: str
    topic: str
    readable: bool


@dataclass(frozen=True, slots=True)
class SetMode:
    """Sets how a group is given a topic's messages."""

    group: str
    topic: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Commit:
    """Makes `offset` the next that a group consumes of a queue."""

    group: str
    topic: str
    queue_id: int
    offset: int


Write = WriteTopic | DropTopic | WriteOrder | DropOrder | WriteGroup | DropGroup | Forbid | SetMode | Commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What is to be done at one broker of the target, or at the name server of the address `broker`.

    `kind` is topics, groups or offsets; `key` names what it is about, once per broker and kind; `before` and
    `after` are what differs, None where there is nothing. With `blocked` it is only shown: it says why, and
    the way out. `note` says what an operator may want to know all the same.
    """

    kind: str
    broker: str
    key: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    write: Write
    blocked: str = ""
    note: str = ""

    @property
    def verb(self) -> str:
        """create, update or delete."""
        if self.after is None:
            return "delete"
        return "create" if self.before is None else "update"

    def shown(self) -> dict[str, Any]:
        """For people and scripts; there are no secrets in it."""
        return {
            "kind": self.kind,
            "action": self.verb,
            "broker": self.broker,
            "name": self.key,
            "before": self.before,
            "after": self.after,
            "blocked": self.blocked,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Unasked:
    """A broker, or name server, that could not be asked about one `kind`, and why; of a whole cluster it is empty.

    What is to be done there is not known.
    """

    kind: str
    broker: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind}{f' at {self.broker}' if self.broker else ''}: {self.reason}"

    def shown(self) -> dict[str, Any]:
        """Beside actions, as one that is neither possible nor done."""
        return {
            "kind": self.kind,
            "action": "unknown",
            "broker": self.broker,
            "name": "",
            "before": None,
            "after": None,
            "blocked": self.reason,
            "error": self.reason,
            "note": "",
        }
