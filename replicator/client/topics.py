"""Topics as a broker has them: read whole tables, create and change one, delete one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from replicator.client.endpoint import Endpoint
from replicator.client.tables import TableRequest, members, read_pages
from replicator.errors import BrokerRefused, ProtocolError
from replicator.protocol.codes import Request, Response
from replicator.protocol.numbers import as_long

__all__ = [
    "READABLE",
    "WRITABLE",
    "TopicConfig",
    "TopicTable",
    "delete_topic",
    "is_missing",
    "read_topics",
    "write_topic",
]

#: Bits of a topic's perm.
READABLE: Final = 4
WRITABLE: Final = 2

_TABLE: Final = TableRequest(
    Request.GET_ALL_TOPIC_CONFIG,
    "topicConfigTable",
    "topicSeq",
    "maxTopicNum",
    "totalTopicNum",
    beside="topicQueueMappingDetailMap",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """A topic on one broker.

    `static`: its queue numbers are those of a queue mapping over several brokers (5.x, `updateStaticTopic`).
    """

    name: str
    read_queues: int
    write_queues: int
    perm: int = READABLE | WRITABLE
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)
    static: bool = False

    @property
    def queues(self) -> int:
        """Queue numbers that may hold messages: the read ones and the write ones."""
        return max(self.read_queues, self.write_queues)


@dataclass(frozen=True, slots=True)
class TopicTable:
    """All topics of one broker and the raw answers they came in, to see cheaply what has changed."""

    topics: Mapping[str, TopicConfig]
    raw: tuple[bytes, ...]


def is_missing(error: Exception) -> bool:
    """Whether a broker has refused a request because it does not have the topic."""
    return isinstance(error, BrokerRefused) and error.code == Response.TOPIC_NOT_EXIST


async def read_topics(broker: Endpoint, *, known: TopicTable | None = None) -> TopicTable:
    """All topics of `broker`, system topics too. `known` itself when nothing has changed.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
        ProtocolError: no table of topics.
    """
    pages = await read_pages(broker, _TABLE, known=known.raw if known else ())
    if pages is None:
        assert known is not None  # noqa: S101 - only what is known can be unchanged
        return known
    mapped = pages.beside
    topics = {name: _topic(name, config, static=name in mapped) for name, config in pages.entries.items()}
    return TopicTable(topics, pages.raw)


def _topic(name: str, config: object, *, static: bool = False) -> TopicConfig:
    values = members(config)
    try:
        return TopicConfig(
            name=name,
            read_queues=as_long(values["readQueueNums"]),
            write_queues=as_long(values["writeQueueNums"]),
            perm=as_long(values["perm"]),
            filter_type=str(values.get("topicFilterType") or "SINGLE_TAG"),
            sys_flag=as_long(values.get("topicSysFlag") or 0),
            order=bool(values.get("order")),
            attributes=dict(values.get("attributes") or {}),
            static=static,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"topic {name!r} has an unreadable configuration ({error!r})") from None


async def write_topic(broker: Endpoint, topic: TopicConfig, *, removed: Iterable[str] = ()) -> None:
    """Creates `topic` on a master, or changes it to be so.

    Args:
        removed: attributes that it is to lose; those that are not named in `topic` stay otherwise.

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
    # Attributes are written with a sign in front: + sets, - removes.
    attributes = [f"+{name}={value}" for name, value in topic.attributes.items()] + [f"-{name}" for name in removed]
    if attributes:
        fields["attributes"] = ",".join(attributes)
    await broker.ask(Request.UPDATE_AND_CREATE_TOPIC, fields)


async def delete_topic(broker: Endpoint, name: str) -> None:
    """Deletes topic `name` with its messages on one broker."""
    await broker.ask(Request.DELETE_TOPIC_IN_BROKER, {"topic": name})
