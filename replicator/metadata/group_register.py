"""Of which groups offsets can be committed at the target.

Brokers keep offsets of names that are no groups: of a group that was deleted without them (`deleteSubGroup` without
`-r`), or, before 5.3, of whatever somebody has committed for.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import Final

from replicator.aio.clock import now
from replicator.client.groups import GroupTable
from replicator.metadata.clusters import Tables

__all__ = ["GroupRegister"]

#: Seconds for which a source broker is believed to have a group.
_BELIEVED: Final = 60.0


class GroupRegister:
    """The groups of both clusters, as far as it matters: tables of groups are large, and rarely change."""

    def __init__(self, source: Tables[GroupTable], target: Tables[GroupTable]) -> None:
        self._source = source
        self._target = target
        self._read = -inf
        #: Names that all source brokers have denied.
        self._nobodys: set[str] = set()

    async def learn(self, names: Collection[str]) -> None:
        """Learns which of `names`, those with offsets at the source, are groups."""
        if self._unknown(names) or now() - self._read > _BELIEVED:
            await self._source.refresh()
            self._read = now()
        unknown = self._unknown(names)
        # One that did not answer may have those that were not known when it did.
        self._nobodys = unknown & self._nobodys if self._source.failures else unknown
        if self._nobodys:
            await self._target.refresh()

    def is_taken(self, broker: str, name: str) -> bool:
        """Whether the target's `broker` takes offsets of `name`, as far as is known.

        4.9, which has no request modes, takes those of any name, and 5.3 those of its groups, which may be more
        than the source has.
        """
        if name not in self._nobodys:
            return True
        table = self._target.tables.get(broker)
        return table is None or table.modes is None or name in table.groups

    def _unknown(self, names: Collection[str]) -> set[str]:
        return {*names}.difference(*(table.groups for table in self._source.tables.values()))
