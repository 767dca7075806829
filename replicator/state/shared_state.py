"""What all workers of a group know in common: keyed records, of which the latest version wins. Pure.

The order in which records arrive, and how often, makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from replicator.state.record import Kind, Record, Version

__all__ = ["SharedState"]


class SharedState:
    """The records of one group, as far as `worker` knows them."""

    def __init__(self, worker: str = "") -> None:
        self.worker = worker
        self._tables: dict[Kind, dict[str, tuple[Version, Any]]] = {kind: {} for kind in Kind}
        self._counter = 0

    def put(self, kind: Kind, key: str, value: Any, *, unseen: int = 0) -> Record:
        """A change of our own, later than all that we know of.

        Args:
            unseen: it is later than so many changes, too, that others may have made without our knowledge.
        """
        return self.put_version(kind, key, Version(self._counter + 1 + unseen, self.worker), value)

    def put_version(self, kind: Kind, key: str, version: Version, value: Any) -> Record:
        """A change of our own under a version that means something by itself."""
        record = Record(kind, key, version, value)
        self.merge(record)
        return record

    def merge(self, record: Record) -> bool:
        """Takes a record of anybody's; whether it is later than what we had."""
        table = self._tables[record.kind]
        known = table.get(record.key)
        if known is not None and known[0] >= record.version:
            return False
        if record.kind is not Kind.ASSIGNMENT:  # its versions are generations
            self._counter = max(self._counter, record.version.counter)
        table[record.key] = (record.version, record.value)
        return True

    def get(self, kind: Kind, key: str) -> Any:
        """The value, or None."""
        known = self._tables[kind].get(key)
        return None if known is None else known[1]

    def items(self, kind: Kind) -> Mapping[str, Any]:
        """All keys of a kind that have a value."""
        return {key: value for key, (_, value) in self._tables[kind].items() if value is not None}

    def table(self, kind: Kind) -> Mapping[str, tuple[Version, Any]]:
        """All keys of a kind, those too that have no value any more."""
        return self._tables[kind]

    def records(self, *kinds: Kind) -> Iterator[Record]:
        """All records of some kinds, those too that say that there is no value any more."""
        for kind in kinds or Kind:
            for key, (version, value) in list(self._tables[kind].items()):
                yield Record(kind, key, version, value)

    def record(self, kind: Kind, key: str) -> Record | None:
        """The record itself, to be published again."""
        known = self._tables[kind].get(key)
        return None if known is None else Record(kind, key, *known)
