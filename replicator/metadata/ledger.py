"""What was written to the target, so that changes at the source differ from manual changes at the target. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from replicator.metadata.action import Action

__all__ = [
    "DELETED",
    "DRIFT",
    "FOREIGN",
    "FOUND",
    "JUST_IDLE",
    "LIVE",
    "OTHERS",
    "REPAIRED",
    "UNTAKEN",
    "Entry",
    "Finding",
    "Key",
    "Ledger",
    "Planned",
    "compare",
    "differing",
    "judged",
    "remember",
    "unless_repaired",
]

#: Why actions are blocked.
DRIFT: Final = "it was changed manually at the target: correct it there or at the source, or set on_drift=repair"
FOUND: Final = "it existed at the target before, with other settings: make them equal, or set on_drift=repair"
UNTAKEN: Final = "the broker did not apply it: it has no such setting, or forbids the change"
DELETED: Final = "the source has deleted it: delete it here, or set sync_deletes"
FOREIGN: Final = (
    "the source has deleted it, but it has messages here that were not copied from there: delete it here, if nobody"
    " needs it"
)
LIVE: Final = "the source has deleted it, but it has consumers here: stop them, or delete it here"
JUST_IDLE: Final = "the source has deleted it: it is deleted here once it has had no consumers for a minute"
OTHERS: Final = (
    "the source has deleted it, but it has an offset here in {topic}, which is not of this route: delete it here,"
    " if nobody needs it"
)
#: The note on an action against somebody's hand.
REPAIRED: Final = "put right"

Settings = Mapping[str, Any]


def unless_repaired(why: str, *, repair: bool) -> tuple[str, str]:
    """Why an action against somebody's hand is blocked, and the note on it: one of them."""
    return ("", REPAIRED) if repair else (why, "")


class Entry(NamedTuple):
    """What the source `wanted` when we last wrote, what the broker made of it (`got`), and of which
    `source` name it is.
    """

    wanted: Settings
    got: Settings
    source: str


#: Target broker, and name there.
Key = tuple[str, str]
Ledger = Mapping[Key, Entry]


class Planned(NamedTuple):
    """What is to be done, and what every item is to be in the end: its settings, and its name at the source."""

    actions: list[Action]
    wanted: dict[Key, tuple[Settings, str]]


class Finding(Enum):
    """SAME: nothing to do. UNTAKEN: the broker does not take all that was wanted, nothing has changed since.
    CHANGED: the source has changed, or it was never written. DRIFTED: somebody has changed the target.
    FOUND: we have never written it, and it is another.
    """

    SAME = auto()
    UNTAKEN = auto()
    CHANGED = auto()
    DRIFTED = auto()
    FOUND = auto()


def compare(current: Settings | None, wanted: Settings, entry: Entry | None) -> Finding:
    """What to make of `current`, which the target has, where `wanted` is to be.

    Only what is wanted counts: brokers of another version have settings that the source does not know.
    """
    if current is not None and _of(current, wanted) == wanted:
        return Finding.SAME
    if current is None:
        return Finding.CHANGED
    if entry is None:
        other = any(name in current and current[name] != wanted[name] for name in wanted)
        return Finding.FOUND if other else Finding.CHANGED
    known = _of(entry.got, wanted)
    if any(current.get(name) != known[name] for name in entry.got.keys() & wanted.keys()):
        return Finding.DRIFTED
    return Finding.UNTAKEN if wanted == entry.wanted else Finding.CHANGED


def judged(finding: Finding, *, repair: bool) -> tuple[str, str]:
    """Why what is not the same is not to be changed, and the note on it."""
    if finding is Finding.UNTAKEN:
        return UNTAKEN, ""
    if finding in (Finding.DRIFTED, Finding.FOUND):
        return unless_repaired(DRIFT if finding is Finding.DRIFTED else FOUND, repair=repair)
    return "", ""


def _of(settings: Settings, wanted: Settings) -> dict[str, Any]:
    return {name: settings.get(name) for name in wanted}


def differing(one: Settings | None, other: Settings) -> tuple[Settings | None, Settings]:
    """Of both what is to be another."""
    if one is None:
        return None, other
    names = [name for name in other if one.get(name) != other[name]]
    return {name: one.get(name) for name in names}, {name: other.get(name) for name in names}


def remember(
    planned: Planned,
    target: Mapping[Key, Settings],
    ledger: Ledger,
    *,
    written: Collection[Key],
    answered: Collection[str],
) -> dict[Key, Entry | None]:
    """What to change in the ledger, once the target has been read again; None: to be forgotten.

    Args:
        written: what actions were applied to.
        answered: the brokers that `target` is known of; what was written to others is remembered as it is.
    """
    news: dict[Key, Entry | None] = {}
    for key, (wanted, source) in planned.wanted.items():
        current = _of(target[key], wanted) if key in target else None
        if current is not None and (key in written or current == wanted):
            entry = Entry(wanted, current, source)
            if entry != ledger.get(key):
                news[key] = entry
    gone = [key for key in ledger if key[0] in answered and key not in planned.wanted and key not in target]
    return news | dict.fromkeys(gone)
