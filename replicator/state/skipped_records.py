"""Records that are left out because they are not of the form of their kind: counted, and logged once per key."""

from __future__ import annotations

from typing import Final, Literal

from replicator.observe.logging import get_logger

__all__ = ["SkippedRecords"]

#: Keys that are remembered as logged.
_KEYS: Final = 1000

log = get_logger(__name__)


class SkippedRecords:
    """`counts` are those of this process, by where they were read."""

    def __init__(self) -> None:
        self.counts = {"topic": 0, "file": 0}
        self._logged: dict[str, None] = {}

    def add(self, origin: Literal["topic", "file"], key: str, reason: str) -> None:
        """Counts the record `key`, read from a system topic or a state file."""
        self.counts[origin] += 1
        if key in self._logged:
            return
        self._logged[key] = None
        if len(self._logged) > _KEYS:
            del self._logged[next(iter(self._logged))]
        log.error("record of the shared state skipped", origin=origin, record=key[:200], reason=reason[:500])
