"""One list of requests, and what of the answers to them has to be the same at a real broker and a simulated one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from replicator.client.address import split_address
from replicator.client.connection import Connection
from replicator.client.pull import pull_fields
from replicator.client.security import Security
from replicator.client.vip import vip_address
from replicator.protocol import fastjson, properties
from replicator.protocol.batch import header_fields, new_entry
from replicator.protocol.codes import Request
from replicator.protocol.frame import Frame
from replicator.protocol.message import StoredMessage, parse_messages

__all__ = ["Asked", "answers", "conversation"]

#: What differs from run to run, or only says what the broker's machine is.
_OWN_FIELDS: Final = frozenset({"msgId", "transactionId", "version"})
_RUNTIME: Final = ("commitLogMaxOffset", "dispatchBehindBytes")
_SETTINGS: Final = ("brokerName", "brokerClusterName", "brokerRole", "maxMessageSize")
#: The flag of messages that are sent singly.
SINGLY: Final = 7
BODY: Final = b"twelve bytes"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request; `of` says which port of the broker, or that its name server is asked."""

    what: str
    code: int
    fields: Mapping[str, str]
    body: bytes = b""
    of: Literal["listen", "vip", "namesrv"] = "listen"


def _create(topic: str, queues: int, perm: int = 6, **more: str) -> Asked:
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": str(perm),
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    } | more
    return Asked(
        f"create {queues} queues, perm {perm} {more or ''}", Request.UPDATE_AND_CREATE_TOPIC, fields, of="vip"
    )


def _send(
    what: str, topic: str, queue: int, entries: Sequence[bytes], *, of: Literal["listen", "vip"] = "vip"
) -> Asked:
    fields = header_fields(
        group="CID_RMQ_SYS_REPLICATOR",
        topic=topic,
        queue_id=queue,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        reconsume_times=0,
    )
    return Asked(what, Request.SEND_BATCH_MESSAGE, fields, b"".join(entries), of)


def _single(what: str, topic: str, queue: int, body: bytes, told: str = "") -> Asked:
    fields = header_fields(
        group="CID_RMQ_SYS_REPLICATOR",
        topic=topic,
        queue_id=queue,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        reconsume_times=0,
    )
    return Asked(what, Request.SEND_MESSAGE_V2, fields | {"m": "false", "i": told, "h": str(SINGLY)}, body, "vip")


def _pull(
    what: str,
    topic: str,
    queue: int,
    offset: int,
    *,
    count: int = 32,
    suspend: float = 0.0,
    of: Literal["listen", "vip"] = "listen",
) -> Asked:
    return Asked(what, Request.PULL_MESSAGE, pull_fields(topic, queue, offset, count=count, suspend=suspend), of=of)


def _end(code: int, topic: str, queue: int, **more: str) -> Asked:
    return Asked(f"{Request(code).name.lower()} of {queue}", code, {"topic": topic, "queueId": str(queue)} | more)


def conversation(topic: str) -> list[Asked]:
    """All that a worker asks, in the usual and in the odd cases; `topic` is a name that nobody else uses."""
    told = properties.encode({"KEYS": "k", "TAGS": "t", "a b": "ü"})
    three = [new_entry(BODY + bytes([i]), told, flag=i) for i in range(3)]
    marked = new_entry(BODY, properties.encode({"CLUSTER": "before", "MSG_REGION": "r", "TRACE_ON": "x", "n": "1"}))
    ends = (Request.GET_MAX_OFFSET, Request.GET_MIN_OFFSET)
    return [
        Asked("brokers", Request.GET_BROKER_CLUSTER_INFO, {}, of="namesrv"),
        Asked("brokers of a broker", Request.GET_BROKER_CLUSTER_INFO, {}),
        Asked("settings", Request.GET_BROKER_CONFIG, {}),
        _send("send to no topic", topic, 0, three),
        _pull("pull of no topic", topic, 0, 0),
        *(_end(each, topic, 0) for each in ends),
        _create(topic, 2),
        _create("has.dots", 1),
        Asked("topics", Request.GET_ALL_TOPIC_CONFIG, {"topicSeq": "0", "maxTopicNum": "5000", "dataVersion": ""}),
        _pull("pull of nothing", topic, 0, 0),
        _pull("pull of nothing at 5", topic, 0, 5),
        *(_end(each, topic, 1) for each in ends),
        *(_end(each, topic, 7) for each in ends),
        _send("send", topic, 0, three),
        _send("send over the listen port", topic, 0, three, of="listen"),
        _send("send to no queue", topic, 9, three),
        _single("send one", topic, 1, BODY, told.decode()),
        _single("send one without properties", topic, 1, BODY),
        _single("send one without a body", topic, 1, b""),
        _single("send one of a broker", topic, 1, BODY, "CLUSTER\x01before\x02MSG_REGION\x01r\x02n\x011\x02"),
        _single("send one to no queue", topic, 9, BODY),
        _send("send what brokers marked", topic, 1, [marked, new_entry(b"", b""), new_entry(BODY, b"n\x011")]),
        _pull("pull from the beginning", topic, 0, 0),
        _pull("pull two", topic, 0, 1, count=2),
        _pull("pull what was sent singly", topic, 1, 0),
        _pull("pull over the VIP port", topic, 0, 0, of="vip"),
        _pull("pull at the end", topic, 0, 6),
        _pull("pull at the end, and wait", topic, 0, 6, suspend=0.5),
        _pull("pull beyond the end", topic, 0, 7),
        _pull("pull no queue", topic, 9, 0),
        *(_end(each, topic, 0) for each in ends),
        _end(Request.SEARCH_OFFSET_BY_TIMESTAMP, topic, 0, timestamp="1"),
        _end(Request.SEARCH_OFFSET_BY_TIMESTAMP, topic, 0, timestamp=str(2**42)),
        _end(Request.SEARCH_OFFSET_BY_TIMESTAMP, topic, 7, timestamp="1"),
        _send("send 40", topic, 1, [new_entry(BODY, told)] * 40),
        _pull("pull more than it gives", topic, 1, 0, count=1024),
        _send("send 300 KB", topic, 0, [new_entry(bytes(100_000), b"")] * 3),
        _pull("pull large ones", topic, 0, 6, count=1024),
        _send("send more than it takes", topic, 0, [new_entry(bytes(1_500_000), b"")] * 3),
        _send("send properties that are too long", topic, 0, [new_entry(BODY, b"a\x01" + b"b" * 32_800 + b"\x02")]),
        _create(topic, 4),
        _pull("pull a new queue", topic, 3, 0),
        _create(topic, 4, perm=2),
        _pull("pull what cannot be read", topic, 0, 0),
        _create(topic, 4, perm=4),
        _send("send what cannot be written", topic, 0, three),
        Asked("delete", Request.DELETE_TOPIC_IN_BROKER, {"topic": topic}, of="vip"),
        _pull("pull what was deleted", topic, 0, 0),
        _create(topic, 1),
        _pull("pull what was made again", topic, 0, 3),
        _end(Request.GET_MAX_OFFSET, topic, 0),
        Asked("runtime", Request.GET_BROKER_RUNTIME_INFO, {}),  # 4.9.7 cannot say in its first second
        Asked("a code that nobody knows", 31_234, {}),
    ]


async def answers(asked: Sequence[Asked], *, broker: str, namesrv: str, topic: str) -> list[dict[str, Any]]:
    """What comes of each request, without what differs from run to run; over connections of its own."""
    loop = asyncio.get_running_loop()
    addresses = {"listen": broker, "vip": vip_address(broker), "namesrv": namesrv}
    open_: dict[str, Connection] = {}
    for of, address in addresses.items():
        host, port = split_address(address)
        _, open_[of] = await loop.create_connection(partial(Connection, address, Security()), host, port)
    given = []
    try:
        for each in asked:
            answer = await open_[each.of].invoke(each.code, each.fields, body=(each.body,), timeout=10.0)
            given.append({"asked": each.what, **_shown(each, answer, topic, [broker, namesrv])})
            await asyncio.sleep(0.1 if each.code in (Request.SEND_BATCH_MESSAGE, Request.SEND_MESSAGE_V2) else 0.0)
    finally:
        for connection in open_.values():
            connection.close()
    return given


def _shown(asked: Asked, answer: Frame, topic: str, addresses: Sequence[str]) -> dict[str, Any]:
    fields = {name: value for name, value in answer.fields.items() if name not in _OWN_FIELDS}
    if "totalTopicNum" in fields:
        fields["totalTopicNum"] = "those of others, too"
    return {
        "code": answer.code,
        "remark": _plain(answer.remark, topic),
        "fields": dict(sorted(fields.items())),
        "body": _body(asked.code, answer, topic, addresses),
    }


def _plain(remark: str, topic: str) -> str:
    """The first words, without what stands for this run alone."""
    line = remark.partition("\n")[0].replace(topic, "TOPIC")
    return re.sub(r"\d{2,3}\.\d+\.\d+\.\d+(:\d+)?", "HOST", line)


def _body(code: int, answer: Frame, topic: str, addresses: Sequence[str]) -> Any:
    if not answer.body or answer.code:
        return len(answer.body)
    if code == Request.PULL_MESSAGE:
        return [
            {
                "offset": m.queue_offset,
                "flag": m.flag,
                "sys_flag": m.sys_flag,
                "born": m.born_timestamp,
                "times": m.reconsume_times,
                "crc": m.body_crc,
                "body": m.body[4:40],
                "properties": _without_own(m),
            }
            for m in parse_messages(answer.body)
        ]
    if code == Request.GET_BROKER_CONFIG:
        lines = dict(line.split("=", 1) for line in answer.body.decode().splitlines() if "=" in line)
        return {name: lines.get(name) for name in _SETTINGS}
    found = fastjson.parse(answer.body)
    if code == Request.GET_BROKER_RUNTIME_INFO:
        return {name: found["table"].get(name, "").isdecimal() for name in _RUNTIME}
    if code == Request.GET_ALL_TOPIC_CONFIG:
        return found["topicConfigTable"][topic]
    return str(found).replace(addresses[0], "BROKER")


def _without_own(message: StoredMessage) -> list[bytes]:
    """The properties; sorted where brokers put them in no order, which is so with single sends."""
    raw = re.sub(rb"UNIQ_KEY\x01[0-9A-F]+", b"UNIQ_KEY\x01HERE", message.properties)
    parts = raw.split(b"\x02")
    return sorted(parts) if message.flag == SINGLY else parts
