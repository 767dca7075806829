"""What a route's metadata task keeps in the shared state: what it wrote, how it stands, what it did."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from replicator.metadata.ledger import Entry, Key, Ledger
from replicator.state.record import Kind
from replicator.state.store import Store

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
        """The record `status`, `audit`, `request`, `answer`, `release` or `failover`; empty when there is none."""
        return self._store.state.get(Kind.SYNC, f"{self._name}/{what}") or {}

    def put(self, what: str, value: Mapping[str, Any]) -> None:
        """Changes such a record."""
        self._store.put(Kind.SYNC, f"{self._name}/{what}", dict(value))

    # Requests to the metadata task's owner, received by any worker.

    def ask(self, force: Sequence[str], *, seconds: float) -> str:
        """Asks for a sync that forces these groups; within `seconds`, or never. What is given names it."""
        asked = uuid.uuid4().hex
        self.put("request", {"id": asked, "force": list(force), "until": time.time() + seconds})
        return asked

    def withdraw(self, asked: str) -> None:
        """Removes the request: its caller no longer waits."""
        if self.get("request").get("id") == asked:
            self.put("request", {})

    def take(self) -> tuple[str, list[str]] | None:
        """The id of a pending request and the groups that it forces; it is taken only once."""
        request = self.get("request")
        if not request or request["id"] == self.get("answer").get("id") or request.get("until", 0.0) < time.time():
            return None
        self.answer(request["id"], None)
        return request["id"], request["force"]

    def answer(self, asked: str, done: list[dict[str, Any]] | None) -> None:
        """What was done; None: it was taken."""
        self.put("answer", {"id": asked, "done": done})

    def answered(self, asked: str) -> list[dict[str, Any]] | None:
        """What was done, once it is; None before."""
        answer = self.get("answer")
        return answer["done"] if answer.get("id") == asked else None

    def is_taken(self, asked: str) -> bool:
        """Whether a worker has started it."""
        return bool(self.get("answer").get("id") == asked)

    # What was done.

    def audit(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Remembers what was done."""
        known = self.get("audit").get("entries", [])
        self.put("audit", {"entries": [*known, *entries][-_REMEMBERED:]})
