"""What an account may not do with a topic, found out without doing it.

Brokers look at rights before anything else of a request, so each right is asked for by a request that has to fail,
or to bring nothing, where the right is there. Measured on 4.9.7 with ACL 1.0, 5.3.3 and 5.5.0 with ACL 2.0.
Each function gives the broker's words, and nothing where it does not deny.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from replicator.client.brokers import max_offset
from replicator.client.endpoint import Endpoint
from replicator.client.pull import pull
from replicator.client.send import new_fields, send_batch
from replicator.client.topics import TopicConfig, write_topic
from replicator.errors import BrokerRefused
from replicator.protocol.codes import Request, Response, is_denied

__all__ = ["denies_creation", "denies_reading", "denies_retry_topic", "denies_sending"]

#: No topic has a queue of this number.
_NO_QUEUE: Final = 2**31 - 1
#: A topic after which none is made, even where brokers make those that they are sent messages of.
_NO_MODEL: Final = "replicator_sys_none"


async def denies_reading(broker: Endpoint, topic: str) -> str:
    """GET and SUB on a topic that is there, and SUB on the group of our pulls."""

    async def read_nothing() -> None:
        await pull(broker, topic, 0, await max_offset(broker, topic, 0), count=1)

    return await _denial(read_nothing())


async def denies_sending(broker: Endpoint, topic: str) -> str:
    """PUB; ACL 1.0 asks nothing of who sends batches."""
    return await _denial(send_batch(broker, new_fields(topic, _NO_QUEUE) | {"c": _NO_MODEL}, [b"nothing"]))


async def denies_creation(broker: Endpoint, topic: str, *, cluster: str) -> str:
    """CREATE; with ACL 1.0 that of an admin.

    Args:
        cluster: the cluster's name, which is reserved: no topic can be called so.
    """
    refused = await _refusal(write_topic(broker, TopicConfig(name=cluster, read_queues=1, write_queues=1)))
    if refused is None or not is_denied(refused.code, refused.remark):
        return ""
    if refused.code != Response.NO_PERMISSION:
        return refused.remark
    # ACL 2.0 goes by the name, and whoever has it knows attributes.
    return await _denial(_write_unknown(broker, topic))


async def denies_retry_topic(broker: Endpoint, topic: str) -> str:
    """GET and CREATE on the group that ACL 2.0 takes a retry topic for, which is not there; with ACL 1.0 CREATE is
    that of an admin. Of brokers that know attributes (5.x).
    """
    shown = broker.ask(Request.GET_TOPIC_STATS_INFO, {"topic": topic})
    return await _denial(shown) or await _denial(_write_unknown(broker, topic))


def _write_unknown(broker: Endpoint, topic: str) -> Awaitable[None]:
    """A topic with an attribute that there is not."""
    unknown = TopicConfig(name=topic, read_queues=1, write_queues=1, attributes={"replicator.none": "none"})
    return write_topic(broker, unknown)


async def _denial(request: Awaitable[object]) -> str:
    refused = await _refusal(request)
    return refused.remark if refused is not None and is_denied(refused.code, refused.remark) else ""


async def _refusal(request: Awaitable[object]) -> BrokerRefused | None:
    try:
        await request
    except BrokerRefused as error:
        return error
    return None
