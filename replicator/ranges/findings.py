"""What a comparison finds: each message with a difference, and how an operator can look it up."""

from __future__ import annotations

from typing import Final

import msgspec

from replicator.protocol import properties
from replicator.protocol.message import StoredMessage

__all__ = ["KINDS", "Finding", "Findings", "MessageKeys"]

#: Kinds of findings.
KINDS: Final = (
    "missing",
    "duplicate",
    "reordered",
    "body",
    "flag",
    "properties",
    "header",
    "origin",
    "stale",
    "unknown",
    "misplaced",
    "extra",
)


class MessageKeys(msgspec.Struct, frozen=True):
    """By what a message can be looked up: its UNIQ_KEY and its KEYS, empty if it has none, and its store time."""

    uniq_key: str
    keys: str
    stored: int

    @classmethod
    def of(cls, message: StoredMessage) -> MessageKeys:
        """Those of a message, at the side that it was read from."""
        uniq_key, keys = (properties.find(message.properties, name) or b"" for name in (b"UNIQ_KEY", b"KEYS"))
        return cls(uniq_key.decode(errors="replace"), keys.decode(errors="replace"), message.store_timestamp)


class Finding(msgspec.Struct, frozen=True):
    """A message with a difference; an offset is None if that side has no such message.

    `uniq_key`, `keys` and `stored`, in milliseconds since the epoch, are those of the source's message; of the
    target's, if the source has none.
    """

    kind: str
    source: int | None
    target: int | None
    detail: str = ""
    uniq_key: str = ""
    keys: str = ""
    stored: int | None = None


class Findings:
    """Counts findings by kind in `counts`, and keeps the `first` ones: at most `most` of each kind."""

    def __init__(self, most: int) -> None:
        self.counts: dict[str, int] = {}
        self.first: list[Finding] = []
        self._most = most

    @property
    def total(self) -> int:
        """How many there are, of all kinds."""
        return sum(self.counts.values())

    def add(self, kind: str, source: int | None, target: int | None, keys: MessageKeys, detail: str = "") -> None:
        """Counts one more."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= self._most:
            named = keys.uniq_key, keys.keys, keys.stored
            self.first.append(Finding(kind, source, target, detail, *named))
