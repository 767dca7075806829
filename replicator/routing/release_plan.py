"""Which parked messages are released at the target, from what was found there. Pure.

A message is left alone that was taken back, that was released before, or whose delivered copy is at the target.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from replicator.routing.parked import Parked

__all__ = ["Found", "ReleasePlan", "Since", "is_released", "plan_release", "undecided"]


@dataclass(frozen=True, slots=True)
class Since:
    """From when on the target is read: what is older is about no message that is parked.

    In topics, what is older than both: copies that the source stored at `due` or later; what the target stored at
    `parked_at` or later. In timers, what was stored at `in_timers` or later. All in milliseconds since the epoch.
    """

    due: int
    parked_at: int
    in_timers: int

    @classmethod
    def of(cls, parked: Iterable[Parked], *, margin: int) -> Since | None:
        """Early enough for all of `parked`, even where clocks differ by `margin` ms; None for none."""
        waiting = list(parked)
        if not waiting:
            return None
        # What the timer has put back may have been released before: in topics not before it was due.
        parked_at = min(min(each.parked_at, each.due) if each.put_back else each.parked_at for each in waiting)
        in_timers = min(0 if each.put_back else each.parked_at for each in waiting)
        return cls(min(each.due for each in waiting) - margin, parked_at - margin, max(0, in_timers - margin))


@dataclass(slots=True)
class Found:
    """What is at the target.

    `recalled` are what records of the timer take messages back by (`Parked.recalls`). `released` are ids of parked
    messages that were released, and are in their topics or wait in the target's timer; `released_keys` are their
    topics at the source and UNIQ_KEYs. `delivered` counts per source topic the fingerprints of copies of what the
    source has delivered.
    """

    parked: list[Parked] = field(default_factory=list)
    recalled: set[bytes] = field(default_factory=set)
    released: set[str] = field(default_factory=set)
    released_keys: set[tuple[str, bytes]] = field(default_factory=set)
    delivered: defaultdict[str, Counter[bytes]] = field(default_factory=lambda: defaultdict(Counter))


@dataclass(slots=True)
class ReleasePlan:
    """`release` are the messages to be released, by due time; the others are counted by why they are not."""

    release: list[Parked] = field(default_factory=list)
    recalled: int = 0
    released: int = 0
    delivered: int = 0


def plan_release(found: Found) -> ReleasePlan:
    """What is to be done; the same whenever it is asked, until something has been done."""
    plan = ReleasePlan()
    delivered: Mapping[str, Counter[bytes]] = {topic: Counter(each) for topic, each in found.delivered.items()}
    for parked in sorted(_distinct(found.parked), key=lambda each: (each.due, each.id)):
        copies = delivered.get(parked.topic, Counter())
        if not parked.recalls.isdisjoint(found.recalled):
            plan.recalled += 1
        elif is_released(parked, found):
            plan.released += 1
        elif copies[parked.fingerprint] > 0:
            copies[parked.fingerprint] -= 1  # one delivered copy stands for one message, however alike others are
            plan.delivered += 1
        else:
            plan.release.append(parked)
    return plan


def undecided(found: Found) -> list[Parked]:
    """The parked messages of which the topics at the target have to tell what became of them."""
    return [each for each in _distinct(found.parked) if each.recalls.isdisjoint(found.recalled)]


def is_released(parked: Parked, found: Found) -> bool:
    """Whether a message was released: it, or its record from before the timer put it back, which may be gone."""
    if parked.id in found.released:
        return True
    return parked.put_back and parked.unique != b"" and (parked.topic, parked.unique) in found.released_keys


def _distinct(parked: Iterable[Parked]) -> Collection[Parked]:
    """Each message once: a copy may have been stored twice, and the timer puts back what is due much later."""
    by_id = {each.id: each for each in parked}
    puts: defaultdict[tuple[str, bytes], defaultdict[int, list[Parked]]] = defaultdict(lambda: defaultdict(list))
    for each in by_id.values():
        puts[each.topic, each.fingerprint][each.rolled].append(each)
    return [each for rolls in puts.values() for each in _most(rolls)]


def _most(rolls: Mapping[int, list[Parked]]) -> list[Parked]:
    """Of messages that are alike, those of one round of the timer: the earliest one that has all of them."""
    return max((rolls[round_] for round_ in sorted(rolls)), key=len)
