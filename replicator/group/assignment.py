"""Which worker runs which task: pure functions of (live workers, tasks, last assignment).

Every worker computes the same from the same. Third parties add strategies by the entry point group
`rocketmq_replicator.assignments`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from hashlib import blake2b
from typing import Final

from replicator.plugins import installed

__all__ = [
    "STRATEGIES",
    "Strategy",
    "consistent_hash",
    "even",
    "load_strategy",
    "sticky",
]

#: (workers, tasks, last) -> owner of every task. `last` may name workers and tasks that are gone.
Strategy = Callable[[Collection[str], Collection[str], Mapping[str, str]], dict[str, str]]


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
        ConfigError: there is none, or it cannot be loaded.
    """
    if name in STRATEGIES:
        return STRATEGIES[name]
    strategy: Strategy = installed.load(installed.ASSIGNMENTS, name, field="assignment", ours=tuple(STRATEGIES))
    return strategy
