"""Two brokers that come back with each other's address, as with recycled IPs."""

from __future__ import annotations

import asyncio

from replicator.sandbox import Cluster

__all__ = ["swap"]


async def swap(cluster: Cluster) -> None:
    """Kills the two brokers of `cluster`, and starts each at the other's address."""
    one, other = cluster.brokers
    await asyncio.gather(one.kill(), other.kill())
    one.port, other.port = other.port, one.port
    one.address, other.address = other.address, one.address
    one.vip_port, other.vip_port = other.vip_port, one.vip_port
    await asyncio.gather(one.start(), other.start())
