"""Brokers that do not answer now, found by one question to each at the same time, before many are asked of all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final

from replicator.client.cluster import Cluster
from replicator.client.endpoint import Endpoint
from replicator.client.look import looking
from replicator.errors import ClientError, ProtocolError, ReplicatorError, Unreachable
from replicator.protocol.codes import Request

__all__ = ["look_at", "silent_brokers"]

#: Seconds for an answer that takes a broker a millisecond; with a connection that is made first, too.
_SECONDS: Final = 4.0


@asynccontextmanager
async def look_at(*clusters: Cluster) -> AsyncIterator[None]:
    """One look at all their brokers: within it none is asked that does not answer now."""
    async with looking(await silent_brokers(*clusters)):
        yield


async def silent_brokers(*clusters: Cluster) -> dict[str, str]:
    """Why each address of a broker that does not answer is not worth another question now."""
    asked = [(cluster, endpoint) for cluster in clusters for endpoint in _brokers(cluster)]
    reasons = await asyncio.gather(*(_silence(endpoint) for _, endpoint in asked))
    found = dict[str, str]()
    for (cluster, endpoint), why in zip(asked, reasons, strict=True):
        if why:
            found[endpoint.address] = found[_vip(cluster, endpoint)] = why
    return found


def _brokers(cluster: Cluster) -> Iterator[Endpoint]:
    if cluster.is_proxy:
        return  # it answers for its brokers, which say nothing of themselves
    for name in cluster.brokers():
        try:
            yield cluster.reader(name)
        except ClientError:  # nobody knows where it is, which costs no time
            continue


def _vip(cluster: Cluster, endpoint: Endpoint) -> str:
    try:
        return cluster.vip_address(endpoint.address)
    except ReplicatorError:  # its port has none
        return endpoint.address


async def _silence(endpoint: Endpoint) -> str:
    try:
        async with asyncio.timeout(_SECONDS):
            await endpoint.invoke(Request.GET_BROKER_CONFIG, {}, timeout=_SECONDS)
    except Unreachable as error:
        return error.reason
    except (TimeoutError, ClientError):
        return f"no answer within {_SECONDS:g} s"
    except ProtocolError:
        return ""  # an answer, too
    return ""
