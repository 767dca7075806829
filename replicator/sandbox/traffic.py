"""Topics and messages of sandbox clusters: enough to see a first message copied, without any other client."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from replicator.client.brokers import max_offset, min_offset, offset_at
from replicator.client.cluster import Cluster as Client
from replicator.client.groups import read_groups, write_group
from replicator.client.offsets import commit_offset, read_offsets
from replicator.client.queue_range import read_range
from replicator.client.security import Credentials, Security, tls_context
from replicator.client.send import new_fields, send_batch
from replicator.client.system_topics import is_system
from replicator.client.topics import WRITABLE, TopicConfig, read_topics, write_topic
from replicator.errors import ConfigError, SandboxError
from replicator.protocol import properties
from replicator.protocol.batch import new_entry
from replicator.protocol.message import StoredMessage
from replicator.sandbox import config, tls
from replicator.sandbox.state import Record, State
from replicator.settings import milliseconds

__all__ = [
    "Place",
    "Shape",
    "Wanted",
    "choose",
    "consume",
    "create",
    "end_of",
    "held",
    "opened",
    "places",
    "produce",
    "start_of",
    "writable",
]

#: Seconds between two batches to the same queue, and between two looks at a queue's end.
_TICK: Final = 0.1
#: Messages in one tick where no rate is given.
_AT_ONCE: Final = 1000
#: Bytes of a batch: brokers take 4 MiB where nothing else is configured, and 64 KiB is the least that is.
_BATCH: Final = 48 * 1024
_GROUP: Final = "replicator_sandbox"


#: Where reading begins: a time is in milliseconds since the epoch.
Start = Literal["earliest", "latest"] | int


def start_of(text: str) -> Start:
    """`earliest`, `latest`, or an ISO 8601 time.

    Raises:
        ConfigError: the text is neither.
    """
    if text == "earliest" or text == "latest":
        return text  # type: ignore[return-value]
    try:
        return milliseconds(text)
    except ValueError:
        raise ConfigError(
            f"--from {text!r} is not a time",
            hint="give earliest, latest or an ISO 8601 time like 2026-01-31T06:00:00Z",
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Messages with a number, which `{n}` in `keys` stands for; bodies are JSON of at least `size` bytes."""

    size: int = 0
    keys: str = "order-{n}"
    tag: str = ""

    def entry(self, number: int) -> bytes:
        """A message as a batch has it."""
        content = {"order": number}
        body = json.dumps(content).encode()
        if (missing := self.size - len(body)) > 0:
            body = json.dumps(content | {"padding": "x" * missing}).encode()
        named = {"KEYS": self.keys.replace("{n}", str(number)), "UNIQ_KEY": uuid.uuid4().hex.upper()}
        if self.tag:
            named["TAGS"] = self.tag
        return new_entry(body, properties.encode(named))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be read: from `start` on or from where the group is, so many messages (0: all), later ones too."""

    start: Start = "earliest"
    group: str = ""
    count: int = 0
    follow: bool = False


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


async def writable(client: Client, topic: str, *, force: bool) -> list[Place]:
    """The queues of `topic` that clients send to: brokers themselves take messages whatever the perm is.

    Args:
        force: all queues.

    Raises:
        SandboxError: no broker has the topic, or clients may send to none of its queues.
    """
    everywhere = await places(client, topic)
    if force:
        return everywhere
    held_by = {place.broker: (await read_topics(client.master(place.broker))).topics[topic] for place in everywhere}
    open_to_clients = [
        place
        for place in everywhere
        if held_by[place.broker].perm & WRITABLE and place.queue_id < held_by[place.broker].write_queues
    ]
    if not open_to_clients:
        perms = ", ".join(sorted({str(topic.perm) for topic in held_by.values()}))
        raise SandboxError(
            f"topic {topic!r} has perm {perms}: clients cannot send there (with --protect-target, copies are such)",
            hint="produce at the other cluster, or give --force to send all the same",
        )
    return open_to_clients


async def end_of(client: Client, queues: Sequence[Place], topic: str) -> int:
    """How many messages the queues have ever had."""
    return sum([await max_offset(client.master(place.broker), topic, place.queue_id) for place in queues])


async def held(client: Client) -> list[tuple[str, int, int, list[int]]]:
    """Each topic that is not of the system, with its queues, messages and perms on all brokers."""
    system = {*client.brokers(), client.known_as}
    found: dict[str, tuple[int, int, set[int]]] = {}
    for broker in client.brokers():
        master = client.master(broker)
        for name, topic in (await read_topics(master)).topics.items():
            if is_system(name, system):
                continue
            queues, messages, perms = found.get(name, (0, 0, set[int]()))
            for i in range(topic.queues):
                messages += await max_offset(master, name, i) - await min_offset(master, name, i)
            found[name] = (queues + topic.queues, messages, perms | {topic.perm})
    return [(name, queues, messages, sorted(perms)) for name, (queues, messages, perms) in sorted(found.items())]


async def produce(
    client: Client, topic: str, shape: Shape, queues: Sequence[Place], *, first: int, count: int, rate: int
) -> AsyncIterator[int]:
    """Sends `count` messages over `queues` in turn, `rate` each second; yields how many are sent.

    Args:
        first: the number of the first one.
        rate: 0: as many as possible.
    """
    sent, clock = 0, asyncio.get_running_loop().time
    began = clock()
    while sent < count:
        if rate:
            await asyncio.sleep(max(_TICK, began + (sent + 1) / rate - clock()))
        due = min(count, int((clock() - began) * rate) if rate else sent + _AT_ONCE)
        batches: dict[Place, list[bytes]] = {}
        for number in range(first + sent, first + due):
            queue, order = queues[number % len(queues)], shape.entry(number)
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


async def consume(client: Client, topic: str, wanted: Wanted) -> AsyncIterator[tuple[Place, StoredMessage]]:
    """The wanted messages of all queues, queue by queue; the group has consumed what was given out.

    Raises:
        SandboxError: no broker has the topic.
    """
    at = await _begin(client, topic, wanted)
    kept, given = dict(at), 0
    try:
        while True:
            for place, offset in list(at.items()):
                async for message in read_range(client.master(place.broker), topic, place.queue_id, offset):
                    at[place] = message.queue_offset + 1
                    yield place, message
                    given += 1
                    if given == wanted.count:
                        return
            if not wanted.follow:
                return
            await asyncio.sleep(_TICK)
    finally:
        if wanted.group:
            for place, offset in at.items():
                if offset != kept[place]:
                    await commit_offset(client.writer(place.broker), wanted.group, topic, place.queue_id, offset)


async def _begin(client: Client, topic: str, wanted: Wanted) -> dict[Place, int]:
    """The offset at which each queue is read first."""
    consumed: dict[Place, int] = {}
    for broker in client.brokers() if wanted.group else ():
        if wanted.group not in (await read_groups(client.master(broker))).groups:
            await write_group(client.writer(broker), {"groupName": wanted.group})
        table = await read_offsets(client.master(broker))
        consumed |= {Place(broker, i): at for i, at in table.offsets.get((wanted.group, topic), {}).items()}
    return {
        place: consumed[place] if place in consumed else await _start(client, topic, place, wanted.start)
        for place in await places(client, topic)
    }


async def _start(client: Client, topic: str, place: Place, start: Start) -> int:
    at = client.master(place.broker), topic, place.queue_id
    if start == "earliest":
        return await min_offset(*at)
    return await max_offset(*at) if start == "latest" else await offset_at(*at, start)
