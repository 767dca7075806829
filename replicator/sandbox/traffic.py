"""Topics and messages of sandbox clusters: enough to see a first message copied, without any other client."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from replicator.client.brokers import min_offset
from replicator.client.cluster import Cluster as Client
from replicator.client.queue_range import read_range
from replicator.client.security import Credentials, Security, tls_context
from replicator.client.send import new_fields, send_batch
from replicator.client.topics import TopicConfig, read_topics, write_topic
from replicator.errors import ConfigError, SandboxError
from replicator.protocol import properties
from replicator.protocol.batch import new_entry
from replicator.protocol.message import StoredMessage
from replicator.sandbox import config, tls
from replicator.sandbox.state import Record, State

__all__ = ["Place", "choose", "consume", "create", "opened", "produce"]

#: Seconds between two batches to the same queue, and between two looks at a queue's end.
_TICK: Final = 0.1
#: Messages in one tick where no rate is given.
_AT_ONCE: Final = 1000
#: Bytes of a batch: brokers take 4 MiB where nothing else is configured, and 64 KiB is the least that is.
_BATCH: Final = 48 * 1024
_GROUP: Final = "replicator_sandbox"


class Place(NamedTuple):
    """A queue of a topic."""

    broker: str
    queue_id: int


def choose(state: State, name: str, *, last: bool = False) -> Record:
    """The cluster `name`; without a name the first one that is up, or the last.

    Raises:
        ConfigError: there is no such cluster.
        SandboxError: no cluster is up.
    """
    records = state.read()
    if not records:
        raise SandboxError("no clusters are up", hint="start some with `replicator sandbox up`")
    if not name:
        return [*records.values()][-1 if last else 0]
    if name not in records:
        raise ConfigError(f"--cluster {name!r}: there are {', '.join(records)}", hint="name one of these")
    return records[name]


@asynccontextmanager
async def opened(record: Record, state: State) -> AsyncIterator[Client]:
    """A client of the cluster, as its administrator where it has one.

    Raises:
        Unreachable: it does not answer.
    """
    credentials = None if record.acl == "none" else Credentials(config.ACCESS_KEY, config.SECRET_KEY)
    context = None
    if record.tls:
        files = tls.files(state.cluster_directory(record.name) / "tls")
        context = tls_context("verify", ca_file=files.ca, cert_file=files.client_cert, key_file=files.client_key)
    addresses = [process.address for process in record.processes if process.role == "name server"]
    client = Client(addresses, security=Security(credentials, context))
    try:
        await client.refresh()
        yield client
    finally:
        await client.close()


async def create(client: Client, topic: str, *, queues: int) -> list[Place]:
    """Creates `topic` with so many queues on each broker; returns all of them."""
    for broker in client.brokers():
        wanted = TopicConfig(name=topic, read_queues=queues, write_queues=queues)
        await write_topic(client.writer(broker), wanted)
    return [Place(broker, i) for broker in client.brokers() for i in range(queues)]


async def places(client: Client, topic: str) -> list[Place]:
    """The queues of `topic` on all brokers.

    Raises:
        SandboxError: no broker has it.
    """
    found = [
        Place(broker, i)
        for broker in client.brokers()
        if (config := (await read_topics(client.master(broker))).topics.get(topic)) is not None
        for i in range(config.queues)
    ]
    if not found:
        raise SandboxError(
            f"the cluster has no topic {topic!r}", hint=f"create it with `replicator sandbox topic {topic}`"
        )
    return found


async def produce(client: Client, topic: str, *, count: int, size: int, rate: int) -> AsyncIterator[int]:
    """Sends `count` messages over all queues in turn, `rate` each second; yields how many are sent.

    Bodies are JSON of at least `size` bytes; keys are `order-0`, `order-1`, ….

    Args:
        rate: 0: as many as possible.
    """
    queues, sent, clock = await places(client, topic), 0, asyncio.get_running_loop().time
    began = clock()
    while sent < count:
        if rate:
            await asyncio.sleep(max(_TICK, began + (sent + 1) / rate - clock()))
        due = min(count, int((clock() - began) * rate) if rate else sent + _AT_ONCE)
        batches: dict[Place, list[bytes]] = {}
        for number in range(sent, due):
            queue, order = queues[number % len(queues)], _order(number, size)
            batch = batches.setdefault(queue, [])
            if batch and sum(map(len, batch)) + len(order) > _BATCH:
                await _send(client, topic, queue, batch)
                batch.clear()
            batch.append(order)
        for queue, batch in batches.items():
            await _send(client, topic, queue, batch)
        sent = due
        yield sent


async def _send(client: Client, topic: str, queue: Place, entries: list[bytes]) -> None:
    fields = new_fields(topic, queue.queue_id, group=_GROUP)
    await send_batch(client.writer(queue.broker), fields, list(entries))


def _order(number: int, size: int) -> bytes:
    content = {"order": number}
    body = json.dumps(content).encode()
    if (missing := size - len(body)) > 0:
        body = json.dumps(content | {"padding": "x" * missing}).encode()
    named = {"KEYS": f"order-{number}", "UNIQ_KEY": uuid.uuid4().hex.upper()}
    return new_entry(body, properties.encode(named))


async def consume(client: Client, topic: str, *, follow: bool) -> AsyncIterator[tuple[Place, StoredMessage]]:
    """The messages of all queues from the oldest on, queue by queue; with `follow` what comes later, too."""
    at = {
        place: await min_offset(client.master(place.broker), topic, place.queue_id)
        for place in await places(client, topic)
    }
    while True:
        for place, offset in list(at.items()):
            async for message in read_range(client.master(place.broker), topic, place.queue_id, offset):
                at[place] = message.queue_offset + 1
                yield place, message
        if not follow:
            return
        await asyncio.sleep(_TICK)
