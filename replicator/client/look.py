"""One look at all brokers, for somebody who waits for it: who hangs costs it a few seconds, once.

A broker that hangs takes connections and answers nothing, so each request to it would take as long as its own
timeout, and a look has many, one after the other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

__all__ = ["looking", "meets_silence", "silence_of"]

#: Of the look that this code is part of: why each address that does not answer is not asked again.
_silent: ContextVar[Mapping[str, str] | None] = ContextVar("silent", default=None)

_NOBODY: Final[Mapping[str, str]] = {}


def silence_of(address: str) -> str:
    """Why `address` is not asked in this look; empty: it answers, or nobody looks."""
    return (_silent.get() or _NOBODY).get(address, "")


def meets_silence() -> bool:
    """Whether this is a look in which somebody does not answer: whoever else asks them waits for long."""
    return bool(_silent.get())


@asynccontextmanager
async def looking(silent: Mapping[str, str]) -> AsyncIterator[None]:
    """Within it, in this task and those that it starts, nobody asks the `silent` addresses; values say why."""
    there = dict(silent)
    token = _silent.set(there)
    try:
        yield
    finally:
        there.clear()  # a task that lives on is in no look any more
        _silent.reset(token)
