"""What a route's metadata task keeps in the shared state: what it wrote, how it stands, what it did."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from replicator.errors import ReplicatorError
from replicator.metadata.ledger import Entry, Key, Ledger
from replicator.state.record import Kind
from replicator.state.store import Store

__all__ = ["BeingApplied", "Request", "SyncLedger"]

#: Actions of which the group remembers what was done.
_REMEMBERED: Final = 100
#: Answers kept beside the last one, for who has not read them yet; each may have thousands of actions.
_EARLIER: Final = 1


class BeingApplied(ReplicatorError):
    """Another request to apply the plan is open."""


class Request(NamedTuple):
    """A request to apply the plan: the groups that it forces, and who asked for it; empty: that is not known."""

    id: str
    force: list[str]
    by: str


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
        """The record `status`, `audit`, `request`, `answer`, `release`, `failover` or `in_flight`; empty: none."""
        return self._store.state.get(Kind.SYNC, f"{self._name}/{what}") or {}

    def put(self, what: str, value: Mapping[str, Any]) -> None:
        """Changes such a record."""
        self._store.put(Kind.SYNC, f"{self._name}/{what}", dict(value))

    # Requests to the metadata task's owner, received by any worker.

    def ask(self, force: Sequence[str], *, seconds: float, by: str = "") -> str:
        """Asks for a sync that forces these groups; within `seconds`, or never. What is given names it.

        Args:
            by: who asks for it.

        Raises:
            BeingApplied: an earlier request is neither done nor over.
        """
        open_ = self.get("request")
        if open_ and open_.get("until", 0.0) >= time.time() and self.answered(open_["id"]) is None:
            raise _being_applied(open_.get("by", ""))
        asked = uuid.uuid4().hex
        self.put("request", {"id": asked, "force": list(force), "until": time.time() + seconds, "by": by})
        return asked

    def refuse_if_replaced(self, asked: str) -> None:
        """Says when another request, made at the same moment by another worker, was taken and this one was not.

        Raises:
            BeingApplied: so it is; this one will never be taken.
        """
        other = self.get("request")
        if other.get("id", asked) != asked and self.is_taken(other["id"]) and not self.is_taken(asked):
            raise _being_applied(other.get("by", ""))

    def withdraw(self, asked: str) -> None:
        """Removes the request: its caller no longer waits."""
        if self.get("request").get("id") == asked:
            self._store.put(Kind.SYNC, f"{self._name}/request", None)

    def take(self) -> Request | None:
        """A pending request; it is taken only once."""
        request = self.get("request")
        if not request or self.is_taken(request["id"]) or request.get("until", 0.0) < time.time():
            return None
        self.answer(request["id"], None)
        return Request(request["id"], request["force"], request.get("by", ""))

    def answer(self, asked: str, done: list[dict[str, Any]] | None) -> None:
        """What was done; None: it was taken. The last answers before it stay, for who has not read them yet."""
        earlier = [each for each in self._answers() if each["id"] != asked][:_EARLIER]
        self.put("answer", {"id": asked, "done": done, "earlier": earlier})

    def _answers(self) -> list[dict[str, Any]]:
        """Those that are known, the latest first."""
        answer = self.get("answer")
        last = [{"id": answer["id"], "done": answer["done"]}] if answer else []
        return [*last, *answer.get("earlier", [])]

    def answered(self, asked: str) -> list[dict[str, Any]] | None:
        """What was done, once it is; None before."""
        return next((each["done"] for each in self._answers() if each["id"] == asked), None)

    def is_taken(self, asked: str) -> bool:
        """Whether a worker has started it."""
        return any(each["id"] == asked for each in self._answers())

    # What was done.

    def audit(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Remembers what was done."""
        known = self.get("audit").get("entries", [])
        self.put("audit", {"entries": [*known, *entries][-_REMEMBERED:]})


def _being_applied(by: str) -> BeingApplied:
    who = f" by {by}" if by else ""
    return BeingApplied(f"the plan is being applied already, as it was asked for{who}", hint="ask again afterwards")
