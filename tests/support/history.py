"""What a replication did to messages, judged from the two topics read whole.

    verdict = check(source, target)
    assert verdict.clean, verdict.report()

The judge trusts nothing but what was read: it knows neither offset maps nor counters of the replicator.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

_SHOWN = 5

#: What a copy has like its original; those that differ are told apart.
_CONTENT = ("body", "keys", "tags", "flag", "properties")


class Place(NamedTuple):
    """Where a message lies: broker, queue id, queue offset."""

    broker: str
    queue: int
    offset: int

    @property
    def lane(self) -> Lane:
        return Lane(self.broker, self.queue)

    def __str__(self) -> str:
        return f"{self.broker}/{self.queue}@{self.offset}"


class Lane(NamedTuple):
    """One queue of one broker."""

    broker: str
    queue: int

    def __str__(self) -> str:
        return f"{self.broker}/{self.queue}"


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it was read. `origin` is the source place that a copy says it comes from."""

    place: Place
    body: str
    keys: str = ""
    tags: str = ""
    flag: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    origin: Place | None = None


@dataclass(frozen=True, slots=True)
class Duplicate:
    """One source message found more than once."""

    origin: Place
    copies: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Inversion:
    """A first copy that stands after the copy of a later message of the same source queue."""

    origin: Place
    copy: Place
    behind: Place


@dataclass(frozen=True, slots=True)
class Change:
    """A part of a message that is not as it was."""

    origin: Place
    copy: Place
    part: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Findings; `split` and `mixed` hold queues that break the one-to-one mapping."""

    sources: int
    copies: int
    lost: tuple[Place, ...] = ()
    duplicated: tuple[Duplicate, ...] = ()
    out_of_order: tuple[Inversion, ...] = ()
    changed: tuple[Change, ...] = ()
    extra: tuple[Message, ...] = ()
    split: Mapping[Lane, tuple[Lane, ...]] = field(default_factory=dict)
    mixed: Mapping[Lane, tuple[Lane, ...]] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        """Every message exactly once, in order, unchanged, and nothing else."""
        return self.at_least_once and not self.duplicated

    @property
    def at_least_once(self) -> bool:
        """Like `clean`, but with duplicates allowed."""
        return not (self.lost or self.out_of_order or self.changed or self.extra or self.split or self.mixed)

    @property
    def surplus(self) -> int:
        """Copies that a second delivery made."""
        return sum(len(found.copies) - 1 for found in self.duplicated)

    def report(self) -> str:
        """For people: counts, and the first few of each kind."""
        lines = [f"{self.sources} messages at the source, {self.copies} at the target"]
        lines += _shown("lost", map(str, self.lost))
        lines += _shown("duplicated", (f"{d.origin} as {_joined(d.copies)}" for d in self.duplicated))
        lines += _shown("out of order", (f"{i.origin} at {i.copy} behind {i.behind}" for i in self.out_of_order))
        lines += _shown(
            "changed", (f"{c.origin} at {c.copy}: {c.part} {c.before!r} → {c.after!r}" for c in self.changed)
        )
        lines += _shown("extra", (f"{m.place} says it is {m.origin}" for m in self.extra))
        lines += _shown("split", (f"{lane} into {_joined(into)}" for lane, into in self.split.items()))
        lines += _shown("mixed", (f"{lane} from {_joined(sources)}" for lane, sources in self.mixed.items()))
        return "\n".join(lines)


def digest(body: bytes) -> str:
    """How bodies are compared."""
    return hashlib.sha256(body).hexdigest()


def check(
    source: Iterable[Message],
    target: Iterable[Message],
    *,
    ignore: Callable[[str], bool] = lambda name: False,
) -> Verdict:
    """Judges; `ignore` picks the names of properties that may differ."""
    originals = {message.place: message for message in source}
    copies = sorted(target, key=lambda message: message.place)
    found: dict[Place, list[Message]] = defaultdict(list)
    extra = []
    for copy in copies:
        if copy.origin is None or copy.origin not in originals:
            extra.append(copy)
        else:
            found[copy.origin].append(copy)
    split, mixed = _lanes(found)
    return Verdict(
        sources=len(originals),
        copies=len(copies),
        lost=tuple(sorted(place for place in originals if place not in found)),
        duplicated=tuple(
            Duplicate(origin, tuple(copy.place for copy in several))
            for origin, several in sorted(found.items())
            if len(several) > 1
        ),
        out_of_order=tuple(_inversions(found)),
        changed=tuple(
            change
            for origin, several in sorted(found.items())
            for copy in several
            for change in _changes(originals[origin], copy, ignore)
        ),
        extra=tuple(extra),
        split=split,
        mixed=mixed,
    )


def matched_by_keys(source: Iterable[Message], target: Sequence[Message]) -> list[Message]:
    """The target with origins found by unique keys: a second witness that needs no provenance."""
    places: dict[str, Place] = {}
    for message in source:
        if not message.keys or message.keys in places:
            raise ValueError(f"the key {message.keys!r} of {message.place} does not tell messages apart")
        places[message.keys] = message.place
    return [replace(message, origin=places.get(message.keys)) for message in target]


def _lanes(
    found: Mapping[Place, Sequence[Message]],
) -> tuple[dict[Lane, tuple[Lane, ...]], dict[Lane, tuple[Lane, ...]]]:
    into: dict[Lane, set[Lane]] = defaultdict(set)
    out_of: dict[Lane, set[Lane]] = defaultdict(set)
    for origin, several in found.items():
        for copy in several:
            into[origin.lane].add(copy.place.lane)
            out_of[copy.place.lane].add(origin.lane)
    return _several(into), _several(out_of)


def _several(lanes: Mapping[Lane, set[Lane]]) -> dict[Lane, tuple[Lane, ...]]:
    return {lane: tuple(sorted(others)) for lane, others in sorted(lanes.items()) if len(others) > 1}


def _inversions(found: Mapping[Place, Sequence[Message]]) -> Iterable[Inversion]:
    # Across queues there is no order to break: each pair of source and target queue is looked at by itself.
    firsts: dict[tuple[Lane, Lane], list[tuple[Place, Place]]] = defaultdict(list)
    for origin, several in found.items():
        first = several[0].place
        firsts[origin.lane, first.lane].append((first, origin))
    for _, pairs in sorted(firsts.items()):
        latest: Place | None = None
        for copy, origin in sorted(pairs):
            if latest is not None and origin < latest:
                yield Inversion(origin, copy, latest)
            else:
                latest = origin


def _changes(before: Message, after: Message, ignore: Callable[[str], bool]) -> Iterable[Change]:
    if all(getattr(before, part) == getattr(after, part) for part in _CONTENT):
        return

    def parts(message: Message) -> dict[str, str]:
        own = {"body": message.body, "keys": message.keys, "tags": message.tags, "flag": str(message.flag)}
        return own | {f"property {name}": value for name, value in message.properties.items() if not ignore(name)}

    olds, news = parts(before), parts(after)
    for part in sorted(olds.keys() | news.keys()):
        if olds.get(part) != news.get(part):
            yield Change(before.place, after.place, part, olds.get(part), news.get(part))


def _joined(things: Iterable[object]) -> str:
    return ", ".join(map(str, things))


def _shown(title: str, entries: Iterable[str]) -> list[str]:
    listed = list(entries)
    if not listed:
        return []
    more = [f"  … and {len(listed) - _SHOWN} more"] if len(listed) > _SHOWN else []
    return [f"{title}: {len(listed)}", *(f"  {entry}" for entry in listed[:_SHOWN]), *more]
