"""Messages by key (12), from the index that brokers keep of KEYS and UNIQ_KEY."""

from __future__ import annotations

from typing import Final

from replicator.client.endpoint import Endpoint
from replicator.client.refused import refused
from replicator.protocol.codes import Request, Response
from replicator.protocol.message import StoredMessage, parse_messages

__all__ = ["query"]

#: The end of time, in milliseconds since the epoch.
_EVER: Final = 2**62


async def query(broker: Endpoint, topic: str, key: str, *, most: int = 64) -> list[StoredMessage]:
    """Up to `most` messages of `topic` with `key` that one broker has; none where it keeps no index.

    Equal hashes are not equal keys: others' messages may be among them.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
    """
    fields = {
        "topic": topic,
        "key": key,
        "maxNum": str(most),
        "beginTimestamp": "0",
        "endTimestamp": str(_EVER),
    }
    answer = await broker.invoke(Request.QUERY_MESSAGE, fields)
    if answer.code == Response.QUERY_NOT_FOUND:
        return []
    if answer.code != Response.SUCCESS:
        raise refused(broker.address, Request.QUERY_MESSAGE, answer)
    return parse_messages(answer.body)
