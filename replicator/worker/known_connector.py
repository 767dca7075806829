"""Whether a group runs a connector already, read from its log before this worker takes part: nothing is written.

A worker that joins a group, or has lost its files, must not take what the group lives with for a first start.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from replicator.client.cluster import Cluster
from replicator.client.endpoint import Endpoint
from replicator.client.queue_range import read_range, recent_range
from replicator.errors import ClientError, ProtocolError, ReplicatorError
from replicator.group.signature import Forged, Signer
from replicator.group.wire import NewerForm, Unreadable, read_message
from replicator.state.record import Kind

__all__ = ["GroupLog"]

#: Seconds that reading the log of one broker may take.
_READING: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLog:
    """What `group` has said on `topic` at the brokers of `cluster`, in the last `past` seconds that it spoke."""

    cluster: Cluster
    topic: str
    group: str
    signer: Signer
    past: float

    async def names(self, connector: str) -> bool:
        """Whether the group has that connector, or had it; not where the log cannot be read."""
        try:
            await self.cluster.refresh()
        except ReplicatorError:
            return False
        return any(await asyncio.gather(*(self._named(name, connector) for name in self.cluster.brokers())))

    async def _named(self, broker: str, connector: str) -> bool:
        try:
            async with asyncio.timeout(_READING):
                async for body in self._bodies(self.cluster.reader(broker)):
                    if self._names(body, connector):
                        return True
        except (ClientError, ProtocolError, TimeoutError):
            pass  # another broker may have it
        return False

    async def _bodies(self, broker: Endpoint) -> AsyncIterator[bytes]:
        """What was written last, by the broker's own clock."""
        start, end = await recent_range(broker, self.topic, 0, self.past)
        async for message in read_range(broker, self.topic, 0, start, end):
            yield message.content

    def _names(self, body: bytes, connector: str) -> bool:
        try:
            verified = self.signer.verify(self.topic, body, (self.group,))
            envelope = None if verified is None else read_message(verified.body)
        except (Forged, Unreadable, NewerForm):
            return False
        if envelope is None or envelope.group != self.group:
            return False
        return any((record.kind, record.key) == (Kind.CONNECTOR, connector) for record in envelope.records()[0])
