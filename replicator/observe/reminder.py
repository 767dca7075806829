"""Failures of work that is done again and again: which of them are worth a line of the log."""

from __future__ import annotations

from typing import Final

from replicator.aio.clock import now

__all__ = ["Reminder"]

#: Seconds until a failure that goes on is said again.
_INTERVAL: Final = 60.0


class Reminder:
    """A reason that is new is said at once, one that goes on once a minute."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}

    def is_due(self, reason: str) -> bool:
        """The work has failed for `reason`. Whether that is to be said."""
        at = now()
        if at - self._said.get(reason, -_INTERVAL) < _INTERVAL:
            return False
        self._said[reason] = at
        return True

    def over(self) -> bool:
        """The work was done. Whether it had failed before."""
        failed = bool(self._said)
        self._said.clear()
        return failed
