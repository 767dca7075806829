"""What a Spark task is told of the queues that it is to copy, and which part of their routes' limits is its own."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Final

from msgspec.structs import replace

from replicator.routing.limiter import part_of
from replicator.spark.resident.messages import Part, Released, Terms, Work, pages
from replicator.spark.resident.pair import ResidentPair, ResidentRoute, Slot
from replicator.spark.resident.snapshot import Known, snapshot

__all__ = ["RateShares", "Rates", "work_of"]

#: Seconds for which the queues of all routes are not counted again.
_COUNTED: Final = 1.0

#: Fingerprints of released messages that are told at once, each of some 40 bytes.
_TOLD: Final = 10_000

#: Messages and bytes per second of routes, by name; 0 for no limit.
Rates = dict[str, tuple[int, int]]


class RateShares:
    """The parts of the routes' limits that are those of the tasks of `slots`, by their queues."""

    def __init__(self, slots: Mapping[int, Slot]) -> None:
        self._slots = slots
        self._counted = (-inf, Counter[str]())
        #: Of this turn of the event loop: thousands of queues may be drained in one.
        self._known: dict[Slot, Rates] = {}

    def forget(self) -> None:
        """The queues are divided in another way: they are counted again at once."""
        self._counted = (-inf, Counter())
        self._known.clear()

    def of(self, slot: Slot) -> Rates:
        """The part of each route of `slot`."""
        if not self._known:
            asyncio.get_running_loop().call_soon(self._known.clear)
        if slot not in self._known:
            self._known[slot] = self._of(slot)
        return self._known[slot]

    def _of(self, slot: Slot) -> Rates:
        now = asyncio.get_running_loop().time()
        if now - self._counted[0] > _COUNTED:
            pairs = (pair for each in self._slots.values() for pair in each.pairs.values())
            self._counted = now, Counter(pair.route.name for pair in pairs)
        here = Counter(pair.route.name for pair in slot.pairs.values())
        routes = {pair.route.name: pair.route for pair in slot.pairs.values()}
        rates = {}
        for name, route in routes.items():
            (messages, size), part = route.rates(), here[name] / max(here[name], self._counted[1][name])
            rates[name] = (part_of(messages, part), part_of(size, part))
        return rates


def work_of(pairs: Sequence[ResidentPair], rates: Rates) -> Iterator[Released | Work]:
    """What a task is told to begin with `pairs`; `rates` are its part of the limits of their routes."""
    topics = {(pair.route.name, pair.state.topic): pair.route for pair in pairs}
    for (name, topic), route in topics.items():
        known = sorted(route.released.of(topic))
        for start in range(0, len(known), _TOLD):
            yield Released(name, {topic: known[start : start + _TOLD]})
    routes = {name: _terms(route) for name, route in {pair.route.name: pair.route for pair in pairs}.items()}
    for page in pages(map(_part, pairs), lambda part: part.state):
        yield Work(routes, page, rates)


def _terms(route: ResidentRoute) -> Terms:
    """Without its rates, which each grant says: a queue that begins after they changed is of the same route."""
    settings = route.settings.model_dump(mode="json", exclude={"rate_messages", "rate_bytes"})
    return Terms(settings, route.late_before)


def _part(pair: ResidentPair) -> Part:
    state = pair.state
    known = snapshot(state, Known())
    known = replace(known, progress=replace(known.progress, clean=pair.clean))  # which the task alone may rely on
    return Part(
        pair.route.name,
        state.topic,
        state.source,
        pair.topic,
        state.target,
        pair.from_start,
        known,
    )
