"""Messages that brokers hold back: of delay levels and of the timer, as the Java client sends them."""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from replicator.client.send import send_single
from replicator.errors import BrokerRefused
from replicator.protocol import properties
from replicator.protocol.batch import header_fields
from replicator.protocol.codes import Response
from replicator.sandbox import Cluster
from tests.support.traffic import configured, connected

__all__ = ["recall", "send_waiting"]

#: Requests that are under way at a time.
_AT_ONCE = 20


async def send_waiting(
    cluster: Cluster,
    topic: str,
    bodies: Iterable[str],
    *,
    queues: int = 2,
    level: int | None = None,
    deliver_ms: int | None = None,
    broker: int = 0,
    told: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Sends a message per body, to the queues of a broker in turn, and returns the UNIQ_KEY of each.

    Args:
        told: properties of all of them.
    """
    keys: dict[str, str] = {}
    waits = {"DELAY": str(level)} if level is not None else {"TIMER_DELIVER_MS": str(deliver_ms)}
    limit = asyncio.Semaphore(_AT_ONCE)
    async with connected(cluster) as client:
        writer = client.writer(cluster.brokers[broker].name)

        async def one(number: int, body: str) -> None:
            keys[body] = uuid.uuid4().hex.upper()
            fields = header_fields(
                group="waiting",
                topic=topic,
                queue_id=number % queues,
                sys_flag=0,
                born_timestamp=1_700_000_000_000,
                reconsume_times=0,
            )
            raw = properties.encode({"UNIQ_KEY": keys[body], "WAIT": "true", **waits, **told})
            async with limit:
                while True:
                    try:
                        await send_single(writer, fields | {"i": raw.decode(), "m": "false"}, body.encode())
                        return
                    except BrokerRefused as refused:
                        if refused.code != Response.SYSTEM_BUSY:
                            raise
                    await asyncio.sleep(0.1)

        await asyncio.gather(*(one(number, body) for number, body in enumerate(bodies)))
    return keys


async def recall(cluster: Cluster, topic: str, keys: Iterable[str], *, deliver_ms: int) -> None:
    """Takes back timer messages (370) of the first broker that are due at `deliver_ms`."""
    name = cluster.brokers[0].name
    async with configured(cluster, recallMessageEnable="true"), connected(cluster) as client:
        for key in keys:
            handle = base64.urlsafe_b64encode(f"v1 {topic} {name} {deliver_ms} {key}".encode()).decode()
            fields = {"producerGroup": "waiting", "topic": topic, "recallHandle": handle}
            await client.writer(name).ask(370, fields)
