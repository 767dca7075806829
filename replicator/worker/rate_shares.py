"""How the workers of a group divide the rate limits of a connector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, Final

from replicator.routing.task_id import TaskId

__all__ = ["rate_shares"]

#: What a worker keeps that does not wait for the limits: so many times what it has used lately, and a part of what
#: its tasks stand for, with which it begins when there is more to copy.
_USED: Final = 1.5
_KEPT: Final = 0.1


def rate_shares(
    owners: Mapping[str, str],
    running: Collection[str],
    *,
    me: str,
    used: Mapping[str, Mapping[str, Any]],
    limits: Mapping[str, tuple[int, int]],
) -> dict[str, float]:
    """By connector, the part of its limits for the worker `me`, which runs the tasks `running`.

    That is the part of its tasks. What workers do not need of theirs, those that wait for the limits have as well.
    What another worker is to take over counts here until it has stopped, since it is drained within these limits.

    All workers take the same from what they have told each other; while that changes, they may have more than the
    limit together, for as long as a status takes to be published and read.

    Args:
        owners: of all tasks of the group, as assigned.
        used: by worker and connector the last `RateUse`; of whom there is none, nothing is taken.
        limits: by connector, in messages and bytes per second; 0 is no limit.
    """
    tasks: dict[str, Counter[str]] = {}
    for task, worker in {**owners, **dict.fromkeys(running, me)}.items():
        owner = "" if worker == me and task not in running else worker
        tasks.setdefault(TaskId.parse(task).connector, Counter())[owner] += 1
    return {
        name: _share(count, me, {worker: uses.get(name) for worker, uses in used.items()}, limits.get(name, (0, 0)))
        for name, count in tasks.items()
    }


def _share(
    tasks: Counter[str], me: str, used: Mapping[str, Mapping[str, Any] | None], limits: tuple[int, int]
) -> float:
    part = {worker: count / tasks.total() for worker, count in tasks.items()}
    waiting = sum(part[worker] for worker in part if (use := used.get(worker)) and use["waited"])
    if not waiting or me not in part:
        return part.get(me, 0.0)
    kept = {worker: min(part[worker], _needed(part[worker], used.get(worker), limits)) for worker in part}
    spare, own = sum(part.values()) - sum(kept.values()), used.get(me)
    return kept[me] + (spare * part[me] / waiting if own and own["waited"] else 0.0)


def _needed(part: float, use: Mapping[str, Any] | None, limits: tuple[int, int]) -> float:
    if not use or use["waited"]:
        return part
    of_limits = zip((use["messages"], use["size"]), limits, strict=True)
    most = max((amount / limit for amount, limit in of_limits if limit), default=1.0)
    return _USED * most + _KEPT * part
