"""The dead-letter topic on the target: messages that the target would not take, with their coordinates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from replicator.client.cluster import Cluster
from replicator.client.endpoint import Endpoint
from replicator.client.pull import GROUP
from replicator.client.send import Stored, send_batch
from replicator.client.topics import TopicConfig, is_missing, write_topic
from replicator.errors import BrokerRefused
from replicator.protocol.batch import KEPT_SYS_FLAGS, entry, header_fields
from replicator.protocol.message import StoredMessage
from replicator.protocol.properties import MAX_PROPERTIES, encode
from replicator.routing.faults import MessageRejected, classify_refusal
from replicator.routing.options import RouteOptions
from replicator.routing.provenance import Stamp
from replicator.routing.queue_map import Queue

__all__ = ["DeadLetters"]

_EMPTY: Final = b"\x00\x00\x00\x00"
#: Bytes of the original's properties and body that a dead letter may have, less than any limit.
_ROOM: Final = 4096


class DeadLetters:
    """Writes to `topic`, queue 0, on the broker of the target queue, which is made there when it is missing.

    A dead letter has the original's body and properties as far as they fit, and `__RPL_TOPIC`,
    `__RPL_REASON`, `__RPL_SIZE`, `__RPL_ORIGIN`, `__RPL_SOURCE`; `__RPL_OMITTED` names what did not fit. One may
    be written twice when the worker dies right after it.
    """

    def __init__(self, target: Cluster, topic: str, *, cluster: str, limit: Callable[[str], int]) -> None:
        self._target = target
        self._topic = topic
        self._cluster = cluster
        self._limit = limit
        self._made: set[str] = set()

    @classmethod
    def of(cls, target: Cluster, options: RouteOptions, limit: Callable[[str], int]) -> DeadLetters:
        """As a route's options have it."""
        return cls(target, options.dead_letter_topic, cluster=options.identity.source, limit=limit)

    async def put(self, broker: str, topic: str, source: Queue, message: StoredMessage, reason: str) -> Stored:
        """Writes one dead letter; errors as those of a send.

        Args:
            broker: of the target, which refused the message.
        """
        writer = self._target.writer(broker)
        if broker not in self._made:
            await write_topic(writer, TopicConfig(name=self._topic, read_queues=1, write_queues=1))
            self._made.add(broker)
        extra = {"__RPL_TOPIC": topic, "__RPL_REASON": reason[:1024], "__RPL_SIZE": str(message.body_length)}
        stamp = Stamp(self._cluster, source.broker, source.queue_id)
        kept = message.properties if len(message.properties) + _ROOM <= MAX_PROPERTIES else b""
        whole = len(message.body) + _ROOM + len(kept) <= self._limit(broker)
        try:
            try:
                return await self._send(writer, stamp, message, kept, extra, with_body=whole)
            except BrokerRefused as error:
                # The broker's limit has become lower than it was when it was asked for it last.
                if not whole or not isinstance(classify_refusal(error), MessageRejected):
                    raise
                return await self._send(writer, stamp, message, kept, extra, with_body=False)
        except BrokerRefused as error:
            if is_missing(error):  # it was deleted
                self._made.discard(broker)
            raise

    async def _send(
        self,
        writer: Endpoint,
        stamp: Stamp,
        message: StoredMessage,
        kept: bytes,
        extra: Mapping[str, str],
        *,
        with_body: bool,
    ) -> Stored:
        body, omitted = message.body, []
        if kept != message.properties:
            omitted.append("properties")
        if not with_body:
            body = _EMPTY
            omitted.append("body")
        (stamped,) = stamp.renew([replace(message, properties=kept)])
        raw = stamped + encode({**extra, **({"__RPL_OMITTED": ",".join(omitted)} if omitted else {})})
        fields = header_fields(
            group=GROUP,
            topic=self._topic,
            queue_id=0,
            sys_flag=message.sys_flag & KEPT_SYS_FLAGS if with_body else 0,
            born_timestamp=message.born_timestamp,
            reconsume_times=message.reconsume_times,
        )
        return await send_batch(writer, fields, [entry(body, raw, body_crc=message.body_crc, flag=message.flag)])
