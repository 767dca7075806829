"""How many messages of a queue were audited, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["AuditCounts"]


class AuditCounts(NamedTuple):
    """Messages: verified, unverified by reason, and different by kind."""

    verified: int
    unverified: dict[str, int]
    differences: dict[str, int]

    def less(self, others: AuditCounts) -> AuditCounts:
        """These without `others`; none is below 0."""
        return AuditCounts(
            max(0, self.verified - others.verified),
            _less(self.unverified, others.unverified),
            _less(self.differences, others.differences),
        )


def _less(counts: Mapping[str, int], others: Mapping[str, int]) -> dict[str, int]:
    return {name: max(0, count - others.get(name, 0)) for name, count in counts.items()}
