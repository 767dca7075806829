"""What the source has deleted, and when the target may lose it too: only what is sure, and nobody else's. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from replicator.metadata.action import Action, DropGroup, DropTopic, Forbid
from replicator.metadata.ledger import DRIFT, Ledger, Planned

__all__ = ["emptied", "is_deletion", "unless", "unsure"]

_UNSURE: Final = (
    "the source may still have it: no master of {names} answers there: wait for one, or say that it is gone for"
    " good (`replicator brokers forget`)"
)


def is_deletion(action: Action) -> bool:
    """Whether something goes that may be done."""
    return not action.blocked and isinstance(action.write, DropTopic | DropGroup)


def unless(planned: Planned, why: Callable[[Action], str]) -> Planned:
    """The same; a deletion is blocked where `why` says so."""
    actions = [
        replace(action, blocked=why(action)) if is_deletion(action) else action for action in planned.actions
    ]
    return Planned(actions, planned.wanted)


def unsure(
    planned: Planned, masters: Collection[str], brokers: Callable[[Action], Collection[str]], known: Iterable[str]
) -> Planned:
    """Only what the masters of all brokers that may have it have just denied counts as deleted at the source; a ban
    to read a topic, as lifted there.

    A broker that is away when a worker starts is unknown to it, and a slave learns of things later than its
    master: that neither lists something proves nothing. Where no master answers at all, nothing is said of it: who
    reads while the source is dead that something is not seen there might delete what is in use.

    Args:
        masters: the source's brokers whose masters have answered.
        brokers: those that may have what an action deletes; none: nobody remembers any.
        known: the source's brokers, as the name servers list them.
    """
    listed = {*known}

    def judged(action: Action) -> Action | None:
        lifts = isinstance(action.write, Forbid) and action.write.readable
        if not lifts and not isinstance(action.write, DropTopic | DropGroup):
            return action
        away = {*(brokers(action) or ("its brokers",)), *listed} - {*masters}
        if not away or action.blocked == DRIFT:
            return action
        return replace(action, blocked=_UNSURE.format(names=", ".join(sorted(away)))) if masters else None

    return Planned([each for each in map(judged, planned.actions) if each is not None], planned.wanted)


def emptied(
    ledger: Ledger, there: Mapping[str, Collection[str]], brokers: Callable[[str], Collection[str]]
) -> dict[str, str]:
    """The brokers that have lost at once all that was synced from them, each with why nothing is deleted for that.

    A broker that has lost its disk comes back by its name and denies everything; the copies are all that is left.

    Args:
        there: what each broker of the source has now, by the names there.
        brokers: those of the source that may have had something, by its name.
    """
    had = defaultdict[str, set[str]](set)
    for entry in ledger.values():
        for broker in brokers(entry.source):
            had[broker].add(entry.source)
    return {
        broker: (
            f"all {len(names)} that were synced from {broker} are gone there at once, as when it has lost its disk:"
            " delete it here, if it was deleted there"
        )
        for broker, names in had.items()
        if len(names) > 1 and broker in there and not names & {*there[broker]}
    }
