"""POP by hand: what a client that consumes by POP asks a broker for, where no such client can be."""

from __future__ import annotations

import time

from replicator.protocol.message import StoredMessage, parse_messages
from replicator.sandbox import Cluster
from tests.support.traffic import connected

__all__ = ["pop"]

_POP_MESSAGE = 200050


async def pop(cluster: Cluster, topic: str, group: str, *, count: int, invisible_s: float) -> list[StoredMessage]:
    """Delivers up to `count` messages of queue 0 of the first broker to `group`, and acknowledges none of them."""
    async with connected(cluster) as client:
        answer = await client.master(cluster.brokers[0].name).ask(
            _POP_MESSAGE,
            {
                "consumerGroup": group,
                "topic": topic,
                "queueId": "0",
                "maxMsgNums": str(count),
                "invisibleTime": str(round(invisible_s * 1000)),
                "pollTime": "0",
                "bornTime": str(round(time.time() * 1000)),
                "initMode": "0",
                "expType": "TAG",
                "exp": "*",
                "order": "false",
            },
        )
    return parse_messages(answer.body)
