"""What both clusters have of groups and offsets now, looked at again and again, cheaply.

A source broker that does not answer keeps what was last known of it; a target broker that does not is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

from replicator.client.cluster import Cluster
from replicator.client.endpoint import Endpoint
from replicator.errors import ClientError, ProtocolError

__all__ = ["Tables"]

T = TypeVar("T")


class Tables(Generic[T]):
    """One kind of table of all brokers of a cluster.

    Args:
        read: returns a broker's table; it receives the one that is known.
        masters_only: only masters are asked, and what does not answer has no table (the target).
    """

    def __init__(
        self,
        cluster: Cluster,
        read: Callable[[Endpoint, T | None], Awaitable[T]],
        *,
        masters_only: bool,
    ) -> None:
        self.failures: dict[str, str] = {}
        self.tables: Mapping[str, T] = {}
        #: Brokers whose masters returned their table at the last refresh: what their tables lack does not exist.
        self.masters: frozenset[str] = frozenset()
        self._cluster = cluster
        self._read = read
        self._masters_only = masters_only
        self._known: dict[str, T] = {}

    async def refresh(self) -> Mapping[str, T]:
        """What all brokers have now, by broker."""
        failures: dict[str, str] = {}
        answered: dict[str, T] = {}
        masters: set[str] = set()

        async def ask(name: str) -> None:
            try:
                broker = self._cluster.master(name) if self._masters_only else self._cluster.reader(name)
                broker.refuse_pause()
                answered[name] = await self._read(broker, self._known.get(name))
                if self._cluster.is_master(name, broker.address):
                    masters.add(name)
            except (ClientError, ProtocolError) as error:
                failures[name] = str(error)

        brokers = self._cluster.brokers()
        await asyncio.gather(*(ask(name) for name in brokers))
        # Those that were forgotten meanwhile are gone with what they had.
        self._known = {name: table for name, table in (self._known | answered).items() if name in brokers}
        self.failures = failures
        self.masters = frozenset(masters)
        self.tables = dict(sorted((answered if self._masters_only else self._known).items()))
        return self.tables
