"""Light message queues (LMQ), lite topics among them: a broker lets each be read as if it were queue 0 of a topic.

A message in one is stored once, in a queue of the topic that it was sent to. The broker answers with it as it is
stored there; its offsets in its light queues are among its properties.
"""

from __future__ import annotations

from typing import NamedTuple

from replicator.client.endpoint import Endpoint
from replicator.client.pull import pull_with_body
from replicator.errors import ProtocolError
from replicator.protocol.message import StoredMessage, homes
from replicator.protocol.properties import light_offset

__all__ = ["LightMessage", "LightPull", "pull_light"]


class LightMessage(NamedTuple):
    """A message at `offset` of a light queue; `message` has its offset in the queue of the topic it was sent to."""

    offset: int
    topic: str
    queue_id: int
    message: StoredMessage


class LightPull(NamedTuple):
    """The answer to one pull, and where the light queue begins and ends."""

    messages: list[LightMessage]
    min_offset: int
    max_offset: int


async def pull_light(broker: Endpoint, name: str, offset: int, *, count: int = 32) -> LightPull:
    """The messages of the light queue `name` from `offset` on, at most `count`; none where it has none at that.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there, and `pull`.
        ProtocolError: the answer is none to a pull, or has messages of others.
    """
    pulled, body = await pull_with_body(broker, name, 0, offset, count=count)
    places = homes(body) if pulled.messages else []
    found = []
    for message, (topic, queue_id) in zip(pulled.messages, places, strict=True):
        at = light_offset(message.properties, name)
        if at is None:
            raise ProtocolError(f"{broker.address} has a message in {name} that does not say at which offset")
        found.append(LightMessage(at, topic, queue_id, message))
    return LightPull(found, pulled.min_offset, pulled.max_offset)
