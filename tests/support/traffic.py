"""Messages in and out of sandbox clusters by the project's own client: fast, and to the byte."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType

from replicator.client.cluster import Cluster as Client
from replicator.client.nameservers import NameServers
from replicator.client.queue_range import read_range
from replicator.client.security import Credentials, Security, tls_context
from replicator.client.send import Stored, new_fields, send_batch, send_single
from replicator.client.topics import TopicConfig, delete_topic, read_topics, write_topic
from replicator.errors import ClientError, ReplicatorError
from replicator.protocol import properties
from replicator.protocol.batch import entry, header_fields
from replicator.protocol.codes import Request
from replicator.protocol.message import StoredMessage
from replicator.routing import provenance
from replicator.sandbox import Cluster
from tests.support.history import Message, Place, Verdict, check

__all__ = [
    "RESERVED",
    "Producer",
    "administration",
    "configure",
    "configured",
    "connected",
    "create_topic",
    "judge",
    "produce",
    "raw_topic",
    "read_topic",
    "remove_topic",
    "send",
    "send_alone",
    "tell_name_servers",
    "topics_of",
]

#: Seconds for which a broker may be busy before a send fails.
_BUSY = 5.0
RESERVED = frozenset(
    {
        *("__RPL_ORIGIN", "__RPL_SOURCE", "__RPL_VIA", "__RPL_SEAL", "CLUSTER", "MSG_REGION", "TRACE_ON"),
        "INNER_MULTI_QUEUE_OFFSET",
        "__CRC32#",
    }
)


def administration(cluster: Cluster) -> Security:
    """As whom, and how, the project's client connects to a sandbox cluster."""
    administrator = Credentials(cluster.access_key, cluster.secret_key) if cluster.access_key else None
    tls = None
    if cluster.spec.tls:
        files = cluster.tls_files
        tls = tls_context("verify", ca_file=files.ca, cert_file=files.client_cert, key_file=files.client_key)
    return Security(administrator, tls)


@asynccontextmanager
async def connected(cluster: Cluster) -> AsyncIterator[Client]:
    """The project's client for a sandbox cluster: with its TLS, as its administrator where it has any."""
    client = Client(cluster.namesrv.split(","), security=administration(cluster))
    try:
        await client.refresh()
        yield client
    finally:
        await client.close()


async def create_topic(cluster: Cluster, topic: str, *, queues: int = 4, **more: object) -> None:
    """Makes `topic` on every broker of the cluster and waits until the name server routes it."""
    async with connected(cluster) as client:
        for broker in client.brokers():
            config = TopicConfig(name=topic, read_queues=queues, write_queues=queues, **more)  # type: ignore[arg-type]
            await write_topic(client.writer(broker), config)


async def configure(cluster: Cluster, **properties: object) -> None:
    """Changes the configuration of all running brokers (request 25)."""
    async with connected(cluster) as client:
        await _configure(client, properties)


async def _configure(client: Client, properties: Mapping[str, object]) -> None:
    body = "".join(f"{name}={value}\n" for name, value in properties.items()).encode()
    for broker in client.brokers():
        await client.master(broker).ask(25, {}, body=(body,))


@asynccontextmanager
async def configured(cluster: Cluster, **properties: object) -> AsyncIterator[None]:
    """Within it the brokers have this configuration, after it the one from before."""
    async with connected(cluster) as client:  # of a broker that takes itself for a slave no new connection would do
        answer = await client.master(cluster.brokers[0].name).ask(Request.GET_BROKER_CONFIG, {})
        lines = answer.body.decode().splitlines()
        before = dict(line.split("=", 1) for line in lines if "=" in line)
        await _configure(client, properties)
        try:
            yield
        finally:
            await _configure(client, {name: before[name] for name in properties})


async def remove_topic(cluster: Cluster, topic: str) -> None:
    """Deletes a topic with its messages, on all brokers and in the name server."""
    async with connected(cluster) as client:
        for broker in client.brokers():
            await delete_topic(client.master(broker), topic)
    await tell_name_servers(cluster, Request.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})


async def tell_name_servers(cluster: Cluster, code: Request, fields: Mapping[str, str]) -> None:
    """Asks each of a cluster's name servers the same."""
    for each in cluster.nameservers:
        await NameServers([each.address], Security()).invoke(code, fields)


async def topics_of(cluster: Cluster) -> dict[str, Mapping[str, TopicConfig]]:
    """All topics of all brokers."""
    async with connected(cluster) as client:
        return {name: (await read_topics(client.master(name))).topics for name in client.brokers()}


async def perms(cluster: Cluster, topic: str) -> set[int]:
    """The different permissions that a topic has at the brokers."""
    return {topics[topic].perm for topics in (await topics_of(cluster)).values()}


async def has_perm(cluster: Cluster, topic: str, perm: int) -> bool:
    """Whether a topic has it at every broker."""
    return await perms(cluster, topic) == {perm}


async def send(
    client: Client,
    broker: str,
    topic: str,
    queue_id: int,
    messages: Sequence[tuple[bytes, Mapping[str, str]]],
    *,
    sys_flag: int = 0,
    flag: int = 0,
    born: int | None = None,
    reconsume_times: int = 0,
) -> Stored:
    """One batch of (body, properties)."""
    entries: list[bytes] = []
    for body, told in messages:
        crc = zlib.crc32(body) & 0x7FFFFFFF
        entries.append(entry(len(body).to_bytes(4) + body, properties.encode(told), body_crc=crc, flag=flag))
    fields = header_fields(
        group="tests",
        topic=topic,
        queue_id=queue_id,
        sys_flag=sys_flag,
        born_timestamp=born or int(time.time() * 1000),
        reconsume_times=reconsume_times,
    )
    until = time.monotonic() + _BUSY
    while True:
        try:
            return await send_batch(client.writer(broker), fields, entries)
        except ClientError as error:
            if "SYSTEM_BUSY (2):" not in str(error) or time.monotonic() > until:
                raise  # a master that has become a slave is busy for ever
            await asyncio.sleep(0.05)


async def send_alone(
    client: Client, broker: str, topic: str, queue_id: int, body: bytes, told: Mapping[str, str]
) -> Stored:
    """One message in a single send, as the official client sends one."""
    fields = new_fields(topic, queue_id, group="tests") | {"i": properties.encode(told).decode(), "m": "false"}
    return await send_single(client.writer(broker), fields, body)


async def produce(cluster: Cluster, topic: str, count: int, *, size: int = 100, start: int = 0) -> None:
    """`count` messages spread over all queues of the topic, with keys, tags and a counting property."""
    async with connected(cluster) as client:
        lanes = [
            (broker, queue_id)
            for broker in client.brokers()
            for queue_id in range((await read_topics(client.master(broker))).topics[topic].queues)
        ]

        async def lane(number: int, broker: str, queue_id: int) -> None:
            mine = range(start + number, start + count, len(lanes))
            for at in range(0, len(mine), 100):
                batch = [_message(i, size) for i in mine[at : at + 100]]
                await send(client, broker, topic, queue_id, batch)

        await asyncio.gather(*(lane(i, *place) for i, place in enumerate(lanes)))


def _message(number: int, size: int) -> tuple[bytes, dict[str, str]]:
    body = f"{number:012d}".encode().ljust(size, b"\xfe")
    return body, {"KEYS": f"k{number}", "TAGS": f"tag{number % 3}", "UNIQ_KEY": f"U{number:030d}", "n": str(number)}


class Producer:
    """Sends small batches to all queues of a topic within its context, or until `finish`.

    `acknowledged` counts messages. With `patient` it continues when a broker is back; what that had taken without
    an answer is there and not counted.
    """

    def __init__(
        self, cluster: Cluster, topic: str, *, per_second: int = 2000, size: int = 100, patient: bool = False
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._pause = 20 / per_second
        self._size = size
        self._failures: tuple[type[Exception], ...] = (ClientError,) if patient else ()
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self.acknowledged = 0

    async def __aenter__(self) -> Producer:
        self._running = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            await self.finish()
        elif self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def finish(self) -> None:
        """Returns when the last batch is acknowledged."""
        assert self._running is not None
        self._stop.set()
        await self._running

    async def _run(self) -> None:
        async with connected(self._cluster) as client:
            lanes = [
                (broker, queue_id)
                for broker in client.brokers()
                for queue_id in range((await read_topics(client.master(broker))).topics[self._topic].queues)
            ]
            turn = 0
            while not self._stop.is_set():
                broker, queue_id = lanes[turn % len(lanes)]
                first = 20 * turn
                batch = [_message(first + i, self._size) for i in range(20)]
                turn += 1
                try:
                    await send(client, broker, self._topic, queue_id, batch)
                except self._failures:
                    await asyncio.sleep(0.1)
                    with contextlib.suppress(ReplicatorError):
                        await client.refresh()  # its master may be another one by now
                else:
                    self.acknowledged += 20
                await asyncio.sleep(self._pause)


async def raw_topic(cluster: Cluster, topic: str) -> dict[tuple[str, int], list[StoredMessage]]:
    """All that is in a topic, per queue, as stored."""
    found: dict[tuple[str, int], list[StoredMessage]] = {}
    async with connected(cluster) as client:
        for broker in client.brokers():
            config = (await read_topics(client.master(broker))).topics.get(topic)
            for queue_id in range(config.queues if config else 0):
                messages = [m async for m in read_range(client.master(broker), topic, queue_id, 0)]
                found[broker, queue_id] = messages
    return found


async def read_topic(cluster: Cluster, topic: str) -> list[Message]:
    """All that is in a topic, for the judge."""
    return [
        _judged(broker, queue_id, message)
        for (broker, queue_id), messages in (await raw_topic(cluster, topic)).items()
        for message in messages
    ]


def _judged(broker: str, queue_id: int, message: StoredMessage) -> Message:
    told = properties.decode(message.properties)
    copy = provenance.read(message.properties)
    return Message(
        Place(broker, queue_id, message.queue_offset),
        hashlib.sha256(message.body[4:]).hexdigest(),
        keys=told.pop("KEYS", ""),
        tags=told.pop("TAGS", ""),
        flag=message.flag,
        properties={name: value for name, value in told.items() if name not in RESERVED},
        origin=Place(copy.broker, copy.queue_id, copy.offset) if copy else None,
    )


async def judge(source: Cluster, target: Cluster, topic: str, *, target_topic: str = "") -> Verdict:
    """What became of the messages of a topic."""
    return check(await read_topic(source, topic), await read_topic(target, target_topic or topic))
