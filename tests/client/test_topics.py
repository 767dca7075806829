"""Tables of topics: read whole, page by page where brokers give pages, and written back as they were meant."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.client import tables
from replicator.client.endpoint import Endpoint
from replicator.client.security import Security
from replicator.client.topics import TopicConfig, _topic, delete_topic, read_topics, write_topic
from replicator.errors import BrokerRefused, ProtocolError
from replicator.protocol.frame import Frame
from replicator.sandbox import ClusterSpec
from tests.client.peer import Peer, Session
from tests.support.clusters import ClusterPool
from tests.support.traffic import connected

VERSION = {"counter": 7, "timestamp": 1}


def config(name: str, **more: object) -> dict[str, object]:
    return {"topicName": name, "readQueueNums": 4, "writeQueueNums": 3, "perm": 6, **more}


class Table:
    """A broker's answers to 21, in pages of `page` topics if it has any."""

    def __init__(self, names: list[str], *, page: int = 0) -> None:
        self.names = names
        self.page = page
        self.mapped: set[str] = set()
        self.asked: list[dict[str, str | None]] = []

    def __call__(self, session: Session, request: Frame) -> None:
        self.asked.append(dict(request.fields))
        begin = int(request.fields["topicSeq"] or 0) if self.page else 0
        names = self.names[begin : begin + self.page] if self.page else self.names
        body: dict[str, Any] = {"dataVersion": VERSION, "topicConfigTable": {name: config(name) for name in names}}
        if self.mapped:
            body["topicQueueMappingDetailMap"] = {
                name: {"hostedQueues": {}} for name in names if name in self.mapped
            }
        fields = {"totalTopicNum": str(len(self.names))} if self.page else {}
        session.answer(request, fields=fields, body=json.dumps(body).encode())


async def test_a_table_in_one_answer() -> None:
    """As all brokers but the newest give it; missing parts have defaults."""
    table = Table(["a", "b"])
    async with Peer(table) as peer:
        endpoint = Endpoint(peer.address, Security())
        read = await read_topics(endpoint)
        assert read.topics == {name: TopicConfig(name=name, read_queues=4, write_queues=3) for name in "ab"}
        assert read.topics["a"].queues == 4
        assert len(table.asked) == 1
        await endpoint.close()


async def test_a_table_in_pages() -> None:
    """Each page is asked for with the version of the one before."""
    names = [f"t{i}" for i in range(25)]
    table = Table(names, page=10)
    async with Peer(table) as peer:
        endpoint = Endpoint(peer.address, Security())
        assert list((await read_topics(endpoint)).topics) == names
        assert [asked["topicSeq"] for asked in table.asked] == ["0", "10", "20"]
        assert [asked["dataVersion"] for asked in table.asked] == [
            "",
            *[json.dumps(VERSION, separators=(",", ":"))] * 2,
        ]
        await endpoint.close()


@pytest.mark.parametrize("page", [0, 10])
async def test_topics_with_a_queue_mapping_are_static(page: int) -> None:
    """Each page has the mappings of its own topics."""
    table = Table([f"t{i}" for i in range(25)], page=page)
    table.mapped = {"t3", "t24"}
    async with Peer(table) as peer:
        endpoint = Endpoint(peer.address, Security())
        topics = (await read_topics(endpoint)).topics
        assert {name for name, topic in topics.items() if topic.static} == table.mapped
        await endpoint.close()


class Changing(Table):
    """Gets a topic after each of the first `changes` answers, and begins again for whoever has an older version."""

    def __init__(self, names: list[str], *, page: int, changes: int) -> None:
        super().__init__(names, page=page)
        self.changes = changes
        self.counter = 0

    def __call__(self, session: Session, request: Frame) -> None:
        version = {"counter": self.counter}
        mine = request.fields["dataVersion"] in ("", json.dumps(version, separators=(",", ":")))
        begin = int(request.fields["topicSeq"] or 0) if mine else 0
        names = self.names[begin : begin + self.page]
        body = {"dataVersion": version, "topicConfigTable": {name: config(name) for name in names}}
        session.answer(request, fields={"totalTopicNum": str(len(self.names))}, body=json.dumps(body).encode())
        if self.counter < self.changes:
            self.counter += 1
            self.names.append(f"new{self.counter}")


async def test_a_table_that_changes_between_pages_is_read_again() -> None:
    """The broker gives its first page for a version that is not its own any more."""
    table = Changing([f"t{i}" for i in range(25)], page=10, changes=3)
    async with Peer(table) as peer:
        endpoint = Endpoint(peer.address, Security())
        assert sorted((await read_topics(endpoint)).topics) == sorted(table.names)
        await endpoint.close()


async def test_a_table_that_never_stands_still_is_no_table() -> None:
    """Half of one would be taken for topics that were deleted."""
    table = Changing([f"t{i}" for i in range(25)], page=10, changes=1000)
    async with Peer(table) as peer:
        endpoint = Endpoint(peer.address, Security())
        with pytest.raises(ProtocolError, match="topicConfigTable that changes"):
            await read_topics(endpoint)
        await endpoint.close()


@pytest.mark.parametrize("page", [0, 10])
async def test_an_unchanged_table_is_the_known_one(page: int) -> None:
    """In pages too, so that whoever compares sees at once that there is nothing to do."""
    table = Table([f"t{i}" for i in range(25)], page=page)
    async with Peer(table) as peer:
        endpoint = Endpoint(peer.address, Security())
        known = await read_topics(endpoint)
        assert await read_topics(endpoint, known=known) is known
        table.names = [*table.names, "new"]
        changed = await read_topics(endpoint, known=known)
        assert "new" in changed.topics
        table.names = table.names[:-2]
        assert "t24" not in (await read_topics(endpoint, known=changed)).topics
        await endpoint.close()


async def test_pages_that_bring_nothing_new_are_no_table() -> None:
    """A broker that counts wrong is not asked forever; what it does not give would be taken for deleted."""

    def lying(session: Session, request: Frame) -> None:
        body = {"dataVersion": None, "topicConfigTable": {"a": config("a")}}
        session.answer(request, fields={"totalTopicNum": "99"}, body=json.dumps(body).encode())

    async with Peer(lying) as peer:
        endpoint = Endpoint(peer.address, Security())
        with pytest.raises(ProtocolError, match="has 99 entries in its topicConfigTable, and gives no more"):
            await read_topics(endpoint)
        assert len(peer.requests) == 2
        await endpoint.close()


@pytest.mark.parametrize(("bound", "most"), [("_MOST_ENTRIES", 100), ("_MOST_BYTES", 100_000)])
async def test_a_table_without_an_end_is_no_table(monkeypatch: pytest.MonkeyPatch, bound: str, most: int) -> None:
    """New names on each page, and always more to come: neither time nor memory is given to that for ever."""
    monkeypatch.setattr(tables, bound, most)

    def endless(session: Session, request: Frame) -> None:
        begin = int(request.fields["topicSeq"] or 0)
        table = {f"t{i}": config(f"t{i}") for i in range(begin, begin + 20)}
        body = json.dumps({"dataVersion": VERSION, "topicConfigTable": table, "x": " " * 40_000}).encode()
        session.answer(request, fields={"totalTopicNum": str(2**62)}, body=body)

    async with Peer(endless) as peer:
        endpoint = Endpoint(peer.address, Security())
        with pytest.raises(ProtocolError, match=f"{peer.address} has answered with .* topicConfigTable"):
            await asyncio.wait_for(read_topics(endpoint), 10)
        assert len(peer.requests) < 8
        await endpoint.close()


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"[]", {}),
        (b"", {}),
        (b'{"topicConfigTable":[]}', {}),
        (b'{"topicConfigTable":{"a":null}}', {}),
        (b'{"topicConfigTable":{"a":{}}}', {}),
        (b'{"topicConfigTable":{"a":{"readQueueNums":"x","writeQueueNums":1,"perm":6}}}', {}),
        (b'{"topicConfigTable":{"a":{"readQueueNums":1e300,"writeQueueNums":1,"perm":6}}}', {}),
        (b'{"topicConfigTable":{}}', {"totalTopicNum": "many"}),
    ],
)
async def test_an_unreadable_table_is_a_protocol_error(body: bytes, fields: dict[str, str]) -> None:
    """Whatever part of it is broken."""
    async with Peer(lambda session, request: session.answer(request, body=body, fields=fields)) as peer:
        endpoint = Endpoint(peer.address, Security())
        with pytest.raises(ProtocolError):
            await read_topics(endpoint)
        await endpoint.close()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.fixed_dictionaries(
        {"readQueueNums": JSON, "writeQueueNums": JSON, "perm": JSON},
        optional={"topicFilterType": JSON, "topicSysFlag": JSON, "order": JSON, "attributes": JSON},
    )
)
def test_any_configuration_is_read_or_a_protocol_error(values: dict[str, object]) -> None:
    """Never any other exception."""
    try:
        assert _topic("a", values).name == "a"
    except ProtocolError:
        return


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3", "5.5.0"])
async def test_topics_of_real_brokers(
    clusters: ClusterPool, topic_name: Callable[[str], str], version: str
) -> None:
    """Created, read, changed, deleted; 5.x keeps attributes, and 4.9.7 takes no order flag."""
    cluster = await clusters.get(ClusterSpec(name="east", version=version))
    attributes = {} if version == "4.9.7" else {"message.type": "FIFO"}
    topic = TopicConfig(
        name=topic_name("t"), read_queues=5, write_queues=3, perm=4, order=version != "4.9.7", attributes=attributes
    )
    async with connected(cluster) as client:
        broker = client.writer("east-a")
        await write_topic(broker, topic)
        table = await read_topics(broker)
        assert table.topics[topic.name] == topic
        assert await read_topics(broker, known=table) is table
        larger = TopicConfig(name=topic.name, read_queues=9, write_queues=9)
        await write_topic(broker, larger)
        changed = await read_topics(broker, known=table)
        assert changed.topics[topic.name] == TopicConfig(
            name=topic.name, read_queues=9, write_queues=9, attributes=attributes
        )
        await delete_topic(broker, topic.name)
        assert topic.name not in (await read_topics(broker, known=changed)).topics
        with pytest.raises(BrokerRefused, match="illegal characters"):
            await write_topic(broker, TopicConfig(name="with.dot", read_queues=1, write_queues=1))


async def test_a_table_in_pages_of_a_real_broker(
    clusters: ClusterPool, topic_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """5.5.0 with small pages: all topics come, one too that comes between; only a change makes another."""
    spec = ClusterSpec(
        name="paged", version="5.5.0", properties={"enableSplitMetadata": "true", "splitMetadataSize": "7"}
    )
    async with clusters.fresh(spec) as cluster, connected(cluster) as client:
        broker = client.master("paged-a")
        names = {topic_name(str(i)) for i in range(30)}
        for name in names:
            await write_topic(broker, TopicConfig(name=name, read_queues=1, write_queues=1))
        table = await read_topics(broker)
        assert names <= table.topics.keys()
        assert len(table.raw) > 4
        assert await read_topics(broker, known=table) is table

        ask, late = broker.ask, topic_name("late")

        async def meanwhile(*given: Any, **more: Any) -> Frame:
            answer = await ask(*given, **more)
            if given[1]["topicSeq"] != "0" and late not in names:
                names.add(late)
                await write_topic(client.writer("paged-a"), TopicConfig(name=late, read_queues=1, write_queues=1))
            return answer

        monkeypatch.setattr(broker, "ask", meanwhile)
        assert names <= (await read_topics(broker)).topics.keys()
        assert late in names
