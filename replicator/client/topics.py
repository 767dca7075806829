"""Topics as a broker has them: read whole tables, create and change one, delete one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from replicator.client.endpoint import Endpoint
from replicator.errors import ProtocolError
from replicator.protocol import fastjson
from replicator.protocol.codes import Request

__all__ = ["READABLE", "WRITABLE", "TopicConfig", "TopicTable", "delete_topic", "read_topics", "write_topic"]

#: Bits of a topic's perm.
READABLE: Final = 4
WRITABLE: Final = 2

#: Topics in one page of 5.5's table; older brokers answer with all.
_PAGE: Final = 5000
#: Seconds. Thousands of topics are megabytes of JSON.
_TIMEOUT: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """A topic on one broker."""

    name: str
    read_queues: int
    write_queues: int
    perm: int = READABLE | WRITABLE
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def queues(self) -> int:
        """Queue numbers that may hold messages: the read ones and the write ones."""
        return max(self.read_queues, self.write_queues)


@dataclass(frozen=True, slots=True)
class TopicTable:
    """All topics of one broker and the raw answers they came in, to see cheaply what has changed."""

    topics: Mapping[str, TopicConfig]
    raw: tuple[bytes, ...]


async def read_topics(broker: Endpoint, *, known: TopicTable | None = None) -> TopicTable:
    """All topics of `broker`, system topics too. `known` itself when nothing has changed.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
    """
    pages: list[bytes] = []
    table: dict[str, Any] = {}
    version = ""
    while True:
        answer = await broker.ask(
            Request.GET_ALL_TOPIC_CONFIG,
            {"topicSeq": str(len(table)), "maxTopicNum": str(_PAGE), "dataVersion": version},
            timeout=_TIMEOUT,
        )
        pages.append(answer.body)
        if known is not None and known.raw == tuple(pages):
            return known
        page = _members(fastjson.parse(answer.body))
        version = msgspec.json.encode(page.get("dataVersion")).decode()
        before = len(table)
        table.update(_members(page.get("topicConfigTable")))
        total = answer.number("totalTopicNum") if "totalTopicNum" in answer.fields else 0
        if len(table) >= total or len(table) == before:
            return TopicTable({name: _topic(name, config) for name, config in table.items()}, tuple(pages))


def _members(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ProtocolError("a table of topics that is no JSON object")
    return value


def _topic(name: str, config: object) -> TopicConfig:
    values = _members(config)
    try:
        return TopicConfig(
            name=name,
            read_queues=int(values["readQueueNums"]),
            write_queues=int(values["writeQueueNums"]),
            perm=int(values["perm"]),
            filter_type=str(values.get("topicFilterType") or "SINGLE_TAG"),
            sys_flag=int(values.get("topicSysFlag") or 0),
            order=bool(values.get("order")),
            attributes=dict(values.get("attributes") or {}),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"topic {name!r} has an unreadable configuration ({error!r})") from None


async def write_topic(broker: Endpoint, topic: TopicConfig) -> None:
    """Creates `topic` on a master, or changes it to be so.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
    """
    fields = {
        "topic": topic.name,
        "defaultTopic": "TBW102",
        "readQueueNums": str(topic.read_queues),
        "writeQueueNums": str(topic.write_queues),
        "perm": str(topic.perm),
        "topicFilterType": topic.filter_type,
        "topicSysFlag": str(topic.sys_flag),
        "order": "true" if topic.order else "false",
    }
    if topic.attributes:
        # Attributes are written with a sign in front: + sets, - removes.
        fields["attributes"] = ",".join(f"+{name}={value}" for name, value in topic.attributes.items())
    await broker.ask(Request.UPDATE_AND_CREATE_TOPIC, fields)


async def delete_topic(broker: Endpoint, name: str) -> None:
    """Deletes topic `name` with its messages on one broker."""
    await broker.ask(Request.DELETE_TOPIC_IN_BROKER, {"topic": name})
