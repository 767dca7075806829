"""Rate limits of a whole job, shared by the tasks that run at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from replicator.protocol.message import StoredMessage
from replicator.routing.limiter import RateLimiter

__all__ = ["RateLimited", "acquire_for", "share"]


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


async def acquire_for(limiter: RateLimiter, messages: Sequence[StoredMessage]) -> None:
    """Waits until `messages` may be read on.

    Where bytes are not limited they are not counted: messages that came as one run would have to be cut for that.
    """
    size = sum(len(message.body) for message in messages) if limiter.size else 0
    await limiter.acquire(len(messages), size)
