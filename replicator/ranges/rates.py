"""Rate limits of a whole job, shared by the tasks that run at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

__all__ = ["RateLimited", "share"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimited:
    """A job with limits in messages and bytes per second; 0 is no limit."""

    rate_messages: int = 0
    rate_bytes: int = 0


R = TypeVar("R", bound=RateLimited)


def share(job: R, at_once: int) -> R:
    """`job` with the share of its limits for each of `at_once` tasks."""
    at_once = max(1, at_once)
    return replace(job, rate_messages=_part(job.rate_messages, at_once), rate_bytes=_part(job.rate_bytes, at_once))


def _part(limit: int, shares: int) -> int:
    return max(1, limit // shares) if limit else 0
