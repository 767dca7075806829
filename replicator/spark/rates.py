"""Limits of a whole job, shared by the tasks that run at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

__all__ = ["Rated", "Shared", "share", "shared_by"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """What has a limit of messages and bytes per second; 0 is no limit."""

    rate_messages: int = 0
    rate_bytes: int = 0


R = TypeVar("R", bound=Rated)


class Shared(NamedTuple, Generic[R]):
    """`job` with each task's part of its limits, and how many tasks may run at a time; None: as many as can."""

    job: R
    at_once: int | None


def shared_by(spark: Any, job: R, tasks: int) -> Shared[R]:
    """`job` for `tasks` tasks.

    A limit is kept whatever slots turn up later: no more tasks run at a time than those that share it.
    """
    at_once = min(tasks, spark.sparkContext.defaultParallelism)
    limited = job.rate_messages or job.rate_bytes
    return Shared(share(job, at_once), at_once if limited else None)


def share(job: R, at_once: int) -> R:
    """`job` with the part of its limits that each of so many may have."""
    at_once = max(1, at_once)
    return replace(job, rate_messages=_part(job.rate_messages, at_once), rate_bytes=_part(job.rate_bytes, at_once))


def _part(limit: int, shares: int) -> int:
    return max(1, limit // shares) if limit else 0
