"""Sends one dead letter to the queue that it was meant for, once, whoever asks for it and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from replicator.admin.dead_letters import (
    DEAD_LETTER_QUEUE,
    STEP,
    Kind,
    Letter,
    Step,
    is_of,
    letter_of,
    pending,
    step_of,
)
from replicator.aio.clock import now
from replicator.client.brokers import max_offset
from replicator.client.endpoint import Endpoint
from replicator.client.pull import GROUP, message_at
from replicator.client.queue_range import read_range
from replicator.client.send import SEND_TIMEOUT, new_fields, send_batch
from replicator.errors import BrokerRefused, ConfigError, ReplicatorError, RequestTimeout
from replicator.observe.logging import get_logger
from replicator.protocol import properties
from replicator.protocol.batch import KEPT_SYS_FLAGS, entry, header_fields, new_entry
from replicator.protocol.codes import Request
from replicator.protocol.message import StoredMessage
from replicator.routing.provenance import ORIGIN, PREFIX
from replicator.routing.queue_map import Queue
from replicator.settings import RouteSettings
from replicator.state.connector_configs import Connector, Unknown
from replicator.worker.worker import Worker

__all__ = ["RESENT", "BeingSent", "Resend", "first_to_send", "resent_properties"]

log = get_logger(__name__)

#: What the message has then, beside its own properties and its birthplace: where it came from, as `__RPL_SOURCE` of
#: a copy says it. It is not a copy for recovery and offsets, since it stands behind messages that came after it.
RESENT: Final = PREFIX + b"RESENT"
#: Seconds after which a resend that is neither done nor refused has failed; half of them to begin to send in, and
#: those in which what is sent must have arrived, however slow the line is.
_PATIENCE: Final = 3 * SEND_TIMEOUT
_SENT: Final = 2.7 * SEND_TIMEOUT
#: Seconds after which nothing of an attempt is stored any more, by the clock of the broker that has the queue: much
#: longer than it may take, since a replica with another clock may have taken over. And pulls under way meanwhile.
_LATEST: Final = 10 * _PATIENCE
_AT_ONCE: Final = 4
#: Seconds within which what was written should be shown, and between two looks.
_SHOWN: Final = 5.0
_PAUSE: Final = 0.02


class BeingSent(ReplicatorError):
    """Somebody else is sending it."""


def first_to_send(steps: Sequence[Step], own: Step) -> list[Step]:
    """Whether who wrote `own` may send the letter; `steps` are those of the letter before it.

    Returns:
        the attempts whose end is not known, so that the message of one may be in the queue.

    Raises:
        BeingSent: another one has begun it just now.
    """
    others = pending(steps)
    if any(own.stored - step.stored < _PATIENCE * 1000 for step in others):
        raise BeingSent("it is being sent already", hint=f"look again in {_PATIENCE:g} seconds")
    return others


def resent_properties(message: StoredMessage, letter: Letter) -> bytes:
    """Its own properties, the cluster that it was born in, and where it came from."""
    kept = b"\x02".join(part for part in message.properties.split(b"\x02") if not part.startswith(PREFIX))
    (own,) = properties.strip([kept])
    source = letter.source
    place = f"{source.cluster}/{source.broker}/{source.queue_id}/{source.offset}/{source.stored}"
    return b"%b\x01%b\x02%b\x01%b%b\x02" % (ORIGIN, source.origin.encode(), RESENT, place.encode(), own)


@dataclass(frozen=True)
class Resend:
    """Of the letter at `offset` of the dead letters of `broker`, for `connector`."""

    worker: Worker
    connector: Connector
    broker: str
    offset: int

    async def carried_out(self) -> dict[str, Any]:
        """Sends it, unless that was done before.

        Returns:
            `topic`, `broker`, `queue` and `offset` at the target, and `already` sent before.

        Raises:
            Unknown: there is no such letter, or what did not fit into it is no longer at the source.
            ConfigError: the connector does not allow it.
            BeingSent: it is being sent already.
            ClientError: the target refused it, or it is not known whether it has it; asking again finds out.
        """
        letter = await self._letter()
        queue, topic = self._queue(letter), self.worker.store.target_topic(self.connector.name, letter.topic)
        message = await self._original(letter)
        reader = self.worker.context.target.cluster.reader(queue.broker)
        end = await max_offset(reader, topic, queue.queue_id)
        begun_at, own, steps = now(), *await self._begun(letter, end)
        place = {"topic": topic, "broker": queue.broker, "queue": queue.queue_id}
        for step in steps:
            if step.kind == "done":
                return {**place, "offset": step.number, "already": True}
        try:
            found = await self._found(reader, place, letter, first_to_send(steps, own))
            if found is None and now() - begun_at > _PATIENCE / 2:
                raise BeingSent("the target answers too slowly", hint="ask again")
            left = _SENT - (now() - begun_at)
            stored = await self._send(letter, message, place, seconds=left) if found is None else found
        except (BeingSent, BrokerRefused, ConfigError):
            await self._step("not-sent", letter.offset, own.offset)
            raise
        await self._step("done", letter.offset, stored)
        self._record(letter, {**place, "offset": stored})
        return {**place, "offset": stored, "already": found is not None}

    @property
    def _settings(self) -> RouteSettings:
        settings = self.connector.settings
        if not isinstance(settings, RouteSettings):
            raise ConfigError(
                f"connector {self.connector.name!r} has no dead letters", hint="only routes have them"
            )
        if settings.transforms:
            raise ConfigError(
                f"connector {self.connector.name!r} has transforms, which a letter has not gone through",
                hint="send it by a connector of its own without transforms, or from the application",
            )
        return settings

    async def _letter(self) -> Letter:
        topic = self._settings.dead_letter_topic
        reader = self.worker.context.target.cluster.reader(self.broker)
        message = await message_at(reader, topic, DEAD_LETTER_QUEUE, self.offset)
        letter = None if message is None else letter_of(self.broker, message)
        if letter is not None and is_of(self.worker, self.connector.name, letter):
            return letter
        raise Unknown(f"{topic} of {self.broker} has no dead letter of this connector at offset {self.offset}")

    def _queue(self, letter: Letter) -> Queue:
        queue_map = self.worker.store.queue_map(self.connector.name, letter.topic)
        source = Queue(letter.source.broker, letter.source.queue_id)
        if source not in queue_map:
            raise Unknown(f"no queue {source.broker}/{source.queue_id} of topic {letter.topic!r} is copied")
        return queue_map[source]

    async def _original(self, letter: Letter) -> StoredMessage:
        """The message as it was refused: the letter itself, or from the source where not all of it did fit."""
        source, context = letter.source, self.worker.context
        if letter.omitted:
            reader = context.source.cluster.reader(source.broker)
            place = (letter.topic, source.queue_id, source.offset)
        else:
            reader = context.target.cluster.reader(self.broker)
            place = (self._settings.dead_letter_topic, DEAD_LETTER_QUEUE, letter.offset)
        message = await message_at(reader, *place)
        if message is not None and (not letter.omitted or message.store_timestamp == source.stored):
            return message
        raise Unknown(
            f"the {letter.omitted} of the message did not fit into the letter, and the source no longer has it",
            hint="only the application can send it again",
        )

    async def _begun(self, letter: Letter, end: int) -> tuple[Step, list[Step]]:
        """Says that it begins, and reads what others have said of the letter before."""
        own = await self._step("begun", letter.offset, end)
        topic, steps = self._settings.dead_letter_topic, []
        reader = self.worker.context.target.cluster.reader(self.broker)
        await _shown(reader, topic, own)
        async for message in read_range(reader, topic, DEAD_LETTER_QUEUE, letter.offset + 1, own + 1):
            step = step_of(message)
            if step is not None and step.letter == letter.offset:
                steps.append(step)
        if not steps or steps[-1].offset != own:
            raise BeingSent("the target does not show yet what was written", hint="ask again")
        return steps[-1], steps[:-1]

    async def _step(self, kind: Kind, letter: int, number: int) -> int:
        """Writes a step; its offset."""
        fields = new_fields(self._settings.dead_letter_topic, DEAD_LETTER_QUEUE)
        said = properties.encode({STEP: f"{kind} {letter} {number}"})
        writer = self.worker.context.target.cluster.writer(self.broker)
        return (await send_batch(writer, fields, [new_entry(b"-", said)])).offset

    async def _found(
        self, reader: Endpoint, place: dict[str, Any], letter: Letter, unknown: Sequence[Step]
    ) -> int | None:
        """Where an attempt whose end is not known has stored the message, if one has.

        Of the others it is written that they have not: they are not searched for again, however long it took.
        """
        for step in unknown:
            found = await self._stored(reader, place, letter, step.number)
            if found is not None:
                return found
            await self._step("not-sent", letter.offset, step.offset)
        return None

    async def _stored(self, reader: Endpoint, place: dict[str, Any], letter: Letter, start: int) -> int | None:
        """Where an attempt has stored the message that began when the queue ended at `start`, if it has."""
        wanted, until = properties.find(resent_properties(_NOTHING, letter), RESENT), inf
        end = await max_offset(reader, place["topic"], place["queue"])
        async for message in read_range(reader, place["topic"], place["queue"], start, end, at_once=_AT_ONCE):
            if properties.find(message.properties, RESENT) == wanted:
                return message.queue_offset
            until = min(until, message.store_timestamp + _LATEST * 1000)
            if message.store_timestamp > until:
                break
        return None

    async def _send(self, letter: Letter, message: StoredMessage, place: dict[str, Any], *, seconds: float) -> int:
        """The offset; what has not arrived within `seconds` is cut off, since others may send it then."""
        raw = resent_properties(message, letter)
        if len(raw) > properties.MAX_PROPERTIES:
            raise ConfigError(
                f"its properties have {len(raw):,} bytes, {properties.MAX_PROPERTIES:,} are possible",
                hint="only the application can send it again",
            )
        fields = header_fields(
            group=GROUP,
            topic=place["topic"],
            queue_id=place["queue"],
            sys_flag=message.sys_flag & KEPT_SYS_FLAGS,
            born_timestamp=message.born_timestamp,
            reconsume_times=message.reconsume_times,
        )
        writer = self.worker.context.target.cluster.writer(place["broker"])
        body = [entry(message.body, raw, body_crc=message.body_crc, flag=message.flag)]
        try:
            async with asyncio.timeout(seconds):
                return (await send_batch(writer, fields, body)).offset
        except TimeoutError:
            raise RequestTimeout(writer.address, Request.SEND_BATCH_MESSAGE, seconds) from None

    def _record(self, letter: Letter, place: dict[str, Any]) -> None:
        source = f"{letter.topic}/{letter.source.broker}/{letter.source.queue_id}/{letter.source.offset}"
        target = "{topic}/{broker}/{queue}/{offset}".format(**place)
        told = {"connector": self.connector.name, "source": source, "target": target}
        log.info("dead letter sent again", **told)
        self.worker.context.audit.note_change("dead letter sent again", self.worker.id, **told)


async def _shown(reader: Endpoint, topic: str, offset: int) -> None:
    """Returns once the dead letters' queue shows `offset`, or after a while: brokers show it a bit later."""
    until = now() + _SHOWN
    while await max_offset(reader, topic, DEAD_LETTER_QUEUE) <= offset:
        if now() >= until:
            return
        await asyncio.sleep(_PAUSE)


_NOTHING: Final = StoredMessage(0, 0, 0, 0, 0, 0, 0, b"", b"")
