"""What a route's metadata task keeps in the shared state: what it wrote, how it stands, what it did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from replicator.metadata.ledger import Entry, Key, Ledger
from replicator.runtime.records import Kind
from replicator.runtime.store import Store

__all__ = ["SyncLedger"]

#: Actions of which the group remembers what was done.
_REMEMBERED: Final = 100


class SyncLedger:
    """The records of route `name`: keys are `name/kind/broker/item`, and a few of their own."""

    def __init__(self, name: str, store: Store) -> None:
        self._name = name
        self._store = store

    def of(self, kind: str) -> Ledger:
        """What was written of topics or groups."""
        prefix = f"{self._name}/{kind}/"
        found: dict[Key, Entry] = {}
        for key, value in self._store.state.items(Kind.SYNC).items():
            if key.startswith(prefix):
                broker, _, item = key.removeprefix(prefix).partition("/")
                found[broker, item] = Entry(value["wanted"], value["got"], value["source"])
        return found

    def learn(self, kind: str, news: Mapping[Key, Entry | None]) -> None:
        """Keeps what has become of it."""
        for (broker, item), entry in news.items():
            value = None if entry is None else entry._asdict()
            self._store.put(Kind.SYNC, f"{self._name}/{kind}/{broker}/{item}", value)

    def get(self, what: str) -> dict[str, Any]:
        """The record `status`, `audit`, `request` or `answer`; empty when there is none."""
        return self._store.state.get(Kind.SYNC, f"{self._name}/{what}") or {}

    def put(self, what: str, value: Mapping[str, Any]) -> None:
        """Changes such a record."""
        self._store.put(Kind.SYNC, f"{self._name}/{what}", dict(value))

    def audit(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Remembers what was done."""
        known = self.get("audit").get("entries", [])
        self.put("audit", {"entries": [*known, *entries][-_REMEMBERED:]})
