"""How a simulated broker stores what it is sent: batches (320) and single messages (310)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from replicator.protocol import properties
from replicator.protocol.batch import size_of, unpack
from replicator.protocol.codes import Response
from replicator.protocol.frame import Frame
from tests.simulation.remoting import Answer
from tests.simulation.store import NewMessage
from tests.simulation.topic_table import described

if TYPE_CHECKING:
    from tests.simulation.broker import Broker

__all__ = ["Sends"]

#: Bytes.
_MOST: Final = 4 * 1024 * 1024
_BUSY: Final = (
    "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 203ms, size of queue: 9"
)
_NO_BODY: Final = (
    "java.lang.NullPointerException: Cannot read the array length because the return value of"
    ' "org.apache.rocketmq.remoting.protocol.RemotingCommand.getBody()" is null,'
    " org.apache.rocketmq.broker.processor.AbstractSendMessageProcessor"
    ".buildMsgContext(AbstractSendMessageProcessor.java:361)"
)
_PRODUCER: Final = "127.0.0.1:50000"


class Sends:
    """Of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def _refusal(self, topic: str, queue_id: int) -> Answer | None:
        broker = self._broker
        if broker.busy:
            return Answer(Response.SYSTEM_BUSY, _BUSY)
        settings = broker.store.topics.get(topic)
        if settings is None:
            return Answer(Response.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!\nSee …")
        if queue_id >= max(settings.write_queues, settings.read_queues):
            told = described(topic, settings, broker.version)
            return Answer(
                broker.version.no_queue, f"request queueId[{queue_id}] is illegal, {told} Producer: {_PRODUCER}"
            )
        return None

    def batch(self, asked: Frame) -> Answer:
        fields = {name: value or "" for name, value in asked.fields.items()}
        topic, queue_id, broker = fields["b"], int(fields["e"]), self._broker
        refusal = self._refusal(topic, queue_id)
        if refusal is not None:
            return refusal
        if len(asked.body) > _MOST:
            return Answer(*broker.version.too_large())
        messages, at = [], 0
        while at < len(asked.body):
            size = size_of(asked.body, at)
            crc, flag, body, raw = unpack(asked.body[at : at + size])
            if len(raw) > properties.MAX_PROPERTIES:
                short = len(raw) - 65_536
                return Answer(
                    Response.SYSTEM_ERROR,
                    f"java.lang.IllegalArgumentException: newPosition < 0: ({at + size - len(raw) + short} < 0),"
                    " java.base/java.nio.Buffer.createPositionException(Unknown Source)",
                )
            marked = broker.version.marked(raw, broker.cluster.encode())
            messages.append(self._message(fields, body[4:], marked, flag, crc))
            at += size
        return self._store(topic, queue_id, messages)

    def single(self, asked: Frame) -> Answer:
        fields = {name: value or "" for name, value in asked.fields.items()}
        topic, queue_id, broker = fields["b"], int(fields["e"]), self._broker
        if not asked.body and not broker.version.is_old:
            return Answer(Response.SYSTEM_ERROR, _NO_BODY)
        refusal = self._refusal(topic, queue_id)
        if refusal is not None:
            return refusal
        raw = fields.get("i", "").encode(errors="surrogateescape")
        key = f"{broker.kernel.random.getrandbits(128):032X}".encode()
        marked = broker.version.single(raw, broker.cluster.encode(), key)
        return self._store(topic, queue_id, [self._message(fields, asked.body, marked, int(fields["h"]), None)])

    def _message(self, fields: dict[str, str], body: bytes, raw: bytes, flag: int, crc: int | None) -> NewMessage:
        return NewMessage(
            body,
            raw,
            flag=flag,
            body_crc=crc,
            sys_flag=int(fields["f"]),
            born=int(fields["g"]),
            reconsume_times=int(fields["j"]),
            born_host=_PRODUCER,
        )

    def _store(self, topic: str, queue_id: int, messages: list[NewMessage]) -> Answer:
        broker, now = self._broker, self._broker.clock()
        offsets = [broker.store.append(topic, queue_id, each, at=now, host=broker.address) for each in messages]
        broker.stored(topic, queue_id, offsets[0], len(offsets))
        return Answer(fields={"queueId": str(queue_id), "queueOffset": str(offsets[0])})
