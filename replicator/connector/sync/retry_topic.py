"""The retry topic of a POP group at a broker of the target: what a failover puts there, each message once.

A message that was put there names the source's one, so whoever repeats a failover finds what was put before,
wherever that was interrupted. All of it is read from the target, so it works with the source dead, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from replicator.aio.bounded import bounded
from replicator.client.brokers import offset_at
from replicator.client.groups import GroupTable, write_group
from replicator.client.offsets import OffsetTable, commit_offset
from replicator.client.pull import GROUP, message_at
from replicator.client.queue_range import read_range
from replicator.client.send import send_single
from replicator.client.system_topics import RETRY_PREFIX
from replicator.client.topics import TopicConfig, write_topic
from replicator.connector.context import ConnectorContext
from replicator.connector.patient_send import send_patiently
from replicator.errors import ReplicatorError
from replicator.metadata.offsets import GroupQueue
from replicator.metadata.redelivery_plan import (
    MARGIN,
    HeldCopy,
    InRetryTopic,
    has_read_on,
    retried_properties,
    unsuitable,
)
from replicator.protocol import properties
from replicator.protocol.batch import KEPT_SYS_FLAGS, header_fields
from replicator.protocol.message import StoredMessage
from replicator.routing import provenance
from replicator.routing.parked import UNIQUE, released
from replicator.routing.queue_map import Queue
from replicator.routing.seal import Seals
from replicator.routing.single_send import OFTEN

__all__ = ["Missing", "RetryTopic", "Unsuitable"]

#: Requests that are under way at a time.
_AT_ONCE: Final = 8
#: Bytes that a single send, and the target's broker, add to the properties.
_ADDED: Final = 256


class Unsuitable(ReplicatorError):
    """What is held of a queue cannot be put into a retry topic; its message says why."""


class Missing(NamedTuple):
    """A message that a group holds in a queue, and that is not in its retry topic."""

    place: GroupQueue
    copy: HeldCopy


class RetryTopic:
    """The topic `name` at `broker`, for `group`."""

    def __init__(self, context: ConnectorContext, group: str, broker: str, name: str) -> None:
        self.group = group
        self.broker = broker
        self.name = name
        self._context = context
        self._master = context.target.cluster.master(broker)
        self._found = InRetryTopic()

    async def read(self, since: int) -> None:
        """Learns what is in it since the first message was delivered that is held (ms).

        Raises:
            ReplicatorError: the target does not show it.
        """
        context, self._found = self._context, InRetryTopic()
        await context.target.refresh()
        await context.barrier.caught_up(self._master)  # or what was sent a moment ago might not be seen
        config = context.target.topics.get(self.broker, {}).get(self.name)
        for queue_id in range(config.read_queues if config is not None else 0):
            seals = Seals(context.sealer, self.name)
            start = await offset_at(self._master, self.name, queue_id, max(0, since - MARGIN))
            async for message in read_range(self._master, self.name, queue_id, start):
                self._note(message, seals)

    def _note(self, message: StoredMessage, seals: Seals) -> None:
        found, raw, sealer = self._found, message.properties, self._context.sealer
        unique = properties.find(raw, UNIQUE) or b""
        copy = provenance.of(message, self.name)
        if copy is not None:
            if copy.cluster == self._context.identity.source and seals.prove(message, copy):
                key = (unique, message.reconsume_times)
                found.revived[key] = max(copy.stored, found.revived.get(key, 0))
            return
        name = released(raw)
        if name is not None and (sealer is None or sealer.proves_release(raw, name.encode(), unique)):
            found.put[name] = max(message.store_timestamp, found.put.get(name, 0))

    async def missing(self, place: GroupQueue, copies: Sequence[HeldCopy]) -> list[Missing]:
        """What is held in a queue and was not in the topic when that was read.

        Raises:
            Unsuitable: a message cannot be put there, or none may be any more.
            ReplicatorError: the target does not show it.
        """

        async def is_missing(copy: HeldCopy) -> bool:
            name, message = await self._message(place, copy)
            if self._found.has(name, message, copy.popped):
                return False
            if why := unsuitable(message):
                raise Unsuitable(f"the message at offset {copy.target} cannot be put into {self.name}: {why}")
            return True

        found = await bounded(is_missing, copies, at_once=_AT_ONCE)
        missing = [Missing(place, copy) for copy, is_so in zip(copies, found, strict=True) if is_so]
        if missing and has_read_on(place):
            raise Unsuitable("it has read on at the target since it was failed over")
        return missing

    async def _message(self, place: GroupQueue, copy: HeldCopy) -> tuple[str, StoredMessage]:
        """What a message that is held is called, and its copy."""
        target, topic, source = place.queue.target, place.queue.target_topic, place.queue.source
        message = await message_at(self._master, topic, target.queue_id, copy.target)
        found = None if message is None else provenance.of(message, topic)
        if message is None or found is None or found.cluster != self._context.identity.source:
            raise Unsuitable(f"no copy is at offset {copy.target} of {target} any more")
        if (Queue(found.broker, found.queue_id), found.offset) != (source, copy.source):
            raise Unsuitable(f"what is at offset {copy.target} of {target} is the copy of another message")
        name = f"{found.cluster}/pop/{place.group}/{place.topic}/{source}/{found.offset}/{found.stored}"
        return name, message

    async def prepare(self, groups: GroupTable, offsets: OffsetTable | None) -> None:
        """Makes what a broker makes before the first message of a retry topic (`addRetryTopicIfNotExist`).

        Args:
            groups: those of the broker.
            offsets: of groups there; None: they are not known.

        Raises:
            BrokerRefused, Unreachable, RequestTimeout: see there.
        """
        target = self._context.target
        writer, of_topic = target.cluster.writer(self.broker), self.name.removeprefix(RETRY_PREFIX)
        if of_topic not in groups.groups:  # 5.5 refuses what is for a group that it does not have
            await write_group(writer, {"groupName": of_topic})
        if self.name not in target.topics.get(self.broker, {}):
            await write_topic(writer, TopicConfig(name=self.name, read_queues=1, write_queues=1))
        if offsets is None or 0 not in offsets.offsets.get((self.group, self.name), {}):
            # A group without an offset may begin behind what is there.
            await commit_offset(writer, self.group, self.name, 0, 0)

    async def put(self, missing: Sequence[Missing], may_go_on: Callable[[], bool]) -> None:
        """Sends what is missing; after the first failure nothing more.

        Raises:
            ReplicatorError: that failure; when nothing is under way any more, or the next attempt might not see it.
        """
        failures: list[ReplicatorError] = []
        slots = asyncio.Semaphore(_AT_ONCE)

        def left() -> Iterator[Missing]:
            yield from takewhile(lambda _: not failures and may_go_on(), missing)

        async def put(each: Missing) -> None:
            try:
                await self._send(each, slots)
            except ReplicatorError as error:
                failures.append(error)

        tried = len(await bounded(put, left(), at_once=_AT_ONCE))
        if failures:
            raise failures[0]
        if tried < len(missing):
            raise ReplicatorError("the route does not stand still any more")

    async def _send(self, each: Missing, slots: asyncio.Semaphore) -> None:
        name, message = await self._message(*each)
        raw = retried_properties(message, name, each.copy.popped, seal=self._seal(message, name))
        cluster = self._context.unleased or self._context.target.cluster
        writer = cluster.writer(self.broker)
        fields = header_fields(
            group=GROUP,
            topic=self.name,
            queue_id=0,
            sys_flag=message.sys_flag & KEPT_SYS_FLAGS,
            born_timestamp=message.born_timestamp,
            reconsume_times=message.reconsume_times + 1,
        )
        # "l": a message that was tried often is not to go to the dead letters on its way.
        fields |= {"h": str(message.flag), "i": raw.decode(errors="surrogateescape"), "l": OFTEN, "m": "false"}
        await send_patiently(lambda: send_single(writer, fields, message.content), slots)

    def _seal(self, message: StoredMessage, name: str) -> bytes:
        """What proves to who repeats the failover that this group put it there; nothing where that has no room."""
        sealer = self._context.sealer
        if sealer is None:
            return b""
        seal = sealer.seal_release(name.encode(), properties.find(message.properties, UNIQUE) or b"")
        room = properties.MAX_PROPERTIES - len(retried_properties(message, name, 0)) - _ADDED
        return seal if len(seal) <= room else b""
