"""Which worker runs which task: pure functions of (live workers, tasks, last assignment).

Every worker computes the same from the same. Third parties add strategies by the entry point group
`rocketmq_replicator.assignments`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from hashlib import blake2b
from importlib.metadata import entry_points
from typing import Final

from replicator.errors import StartupError

__all__ = ["ENTRY_POINTS", "STRATEGIES", "Strategy", "consistent_hash", "even", "load_strategy", "sticky"]

#: (workers, tasks, last) -> owner of every task. `last` may name workers and tasks that are gone.
Strategy = Callable[[Collection[str], Collection[str], Mapping[str, str]], dict[str, str]]

ENTRY_POINTS: Final = "rocketmq_replicator.assignments"


def even(workers: Collection[str], tasks: Collection[str], last: Mapping[str, str]) -> dict[str, str]:
    """Tasks in turn to workers, both sorted: loads differ by one at most; `last` plays no part."""
    order = sorted(workers)
    return {task: order[i % len(order)] for i, task in enumerate(sorted(tasks))} if order else {}


def sticky(workers: Collection[str], tasks: Collection[str], last: Mapping[str, str]) -> dict[str, str]:
    """Loads differ by one at most, and no task moves that need not move for that.

    A worker more among n moves at most ceil(tasks / (n + 1)) tasks, all of them to it.
    """
    if not workers:
        return {}
    kept: dict[str, list[str]] = {worker: [] for worker in sorted(workers)}
    free = []
    for task in sorted(tasks):
        owner = last.get(task)
        if owner in kept:
            kept[owner].append(task)
        else:
            free.append(task)
    least, more = divmod(len(tasks), len(kept))
    # Those that have the most may keep one more than the least.
    fullest = sorted(kept, key=lambda worker: (-len(kept[worker]), worker))
    room = {worker: least + (i < more) for i, worker in enumerate(fullest)}
    for worker, held in kept.items():
        free += held[room[worker] :]
        del held[room[worker] :]
    free.sort(reverse=True)
    for worker, held in kept.items():
        while len(held) < room[worker]:
            held.append(free.pop())
    return {task: worker for worker, held in kept.items() for task in held}


def consistent_hash(workers: Collection[str], tasks: Collection[str], last: Mapping[str, str]) -> dict[str, str]:
    """Each task to the worker whose hash with it is highest (rendezvous hashing).

    A worker that comes only takes tasks, one that goes only gives its own: all other tasks stay, whatever
    happened before. Loads are even only on average.
    """
    return {task: max(workers, key=lambda worker: (_weight(worker, task), worker)) for task in tasks if workers}


def _weight(worker: str, task: str) -> bytes:
    return blake2b(f"{worker}\0{task}".encode(), digest_size=8).digest()


STRATEGIES: Final[Mapping[str, Strategy]] = {"even": even, "sticky": sticky, "consistent-hash": consistent_hash}


def load_strategy(name: str) -> Strategy:
    """The strategy called `name`: one of ours, or an installed one.

    Raises:
        StartupError: there is none, or it cannot be loaded.
    """
    if name in STRATEGIES:
        return STRATEGIES[name]
    installed = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    if name not in installed:
        known = ", ".join([*STRATEGIES, *sorted(installed)])
        raise StartupError(f"assignment = {name!r} is no strategy", hint=f"there are: {known}")
    try:
        strategy: Strategy = installed[name].load()
    except Exception as error:
        raise StartupError(
            f"assignment = {name!r} cannot be loaded ({type(error).__name__}: {error})",
            hint="mend or remove the package that brings it",
        ) from error
    return strategy
