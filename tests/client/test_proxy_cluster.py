"""A cluster of which only a Proxy answers: its brokers are those of the topics that are named."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from replicator.client.brokers import max_offset
from replicator.client.nameservers import NoBrokers
from replicator.client.proxy_cluster import ProxyCluster
from replicator.errors import StartupError, Unreachable
from replicator.protocol.codes import Request, Response
from replicator.protocol.frame import Frame
from tests.client.peer import Peer, Session, unused_port


class Proxy(Peer):
    """It knows the routes `routes`: by topic, the brokers that have it and their queues there.

    Asked by whom, each broker has 7 as the end of its queues; `offsets` are those of group G.
    """

    def __init__(self, **routes: dict[str, int]) -> None:
        super().__init__(self._serve)
        self.routes = routes
        self.cluster = "east"
        self.is_nameserver = False
        self.well = True
        self.offsets: dict[tuple[str, str], int] = {}
        self.denied: set[str] = set()

    def _serve(self, session: Session, request: Frame) -> None:
        fields = request.fields
        if not self.well:
            session.answer(request, Response.SYSTEM_ERROR, remark="its name server is away")
        elif request.code == Request.GET_BROKER_CLUSTER_INFO:
            session.answer(request, 0 if self.is_nameserver else Response.REQUEST_CODE_NOT_SUPPORTED)
        elif fields.get("topic") in self.denied:
            session.answer(request, Response.NO_PERMISSION, remark="no right to it")
        elif request.code == Request.GET_ROUTEINFO_BY_TOPIC:
            self._route(session, request, self.routes.get(str(fields["topic"])))
        elif not fields.get("bname"):
            session.answer(request, 15, remark="Request doesn't have field bname")
        elif request.code == Request.GET_MAX_OFFSET:
            session.answer(request, fields={"offset": "7"})
        elif request.code == Request.QUERY_CONSUMER_OFFSET:
            at = self.offsets.get((str(fields["bname"]), str(fields["topic"])))
            found = {} if at is None else {"offset": str(at)}
            session.answer(request, Response.QUERY_NOT_FOUND if at is None else 0, fields=found)
        else:
            session.answer(request, Response.REQUEST_CODE_NOT_SUPPORTED)

    def _route(self, session: Session, request: Frame, brokers: dict[str, int] | None) -> None:
        if brokers is None:
            session.answer(request, Response.TOPIC_NOT_EXIST)
            return
        data = [{"brokerName": name, "cluster": self.cluster, "brokerAddrs": {"0": "h:1"}} for name in brokers]
        queues = [
            {"brokerName": name, "perm": 6, "readQueueNums": count, "writeQueueNums": count, "topicSysFlag": 0}
            for name, count in brokers.items()
        ]
        session.answer(request, body=json.dumps({"brokerDatas": data, "queueDatas": queues}).encode())


@asynccontextmanager
async def client(*proxies: str, topics: tuple[str, ...] = ("orders",), **more: Any) -> AsyncIterator[ProxyCluster]:
    cluster = ProxyCluster(proxies, topics, **more)
    try:
        yield cluster
    finally:
        await cluster.close()


async def test_each_broker_is_reached_at_the_proxy() -> None:
    """Each request says which broker it is for; the Proxy's own address in the routes is not used."""
    async with Proxy(orders={"a": 2, "b": 1}) as proxy, client(proxy.address) as cluster:
        topology = await cluster.refresh()
        assert topology.cluster == cluster.known_as == "east"
        reached = {name: broker.addresses for name, broker in topology.brokers.items()}
        assert reached == {"a": {0: proxy.address}, "b": {0: proxy.address}}
        for broker in ("a", "b"):
            assert await max_offset(cluster.reader(broker), "orders", 0) == 7
            assert proxy.requests[-1].fields["bname"] == broker
            topics = (await cluster.read_topics(cluster.reader(broker))).topics
            assert topics["orders"].queues == {"a": 2, "b": 1}[broker]
            assert not cluster.shows_all(broker, proxy.address)
        assert (await cluster.read_config(cluster.reader("b"))).name == "b"


async def test_topics_may_be_named_later() -> None:
    """As by a connector that is created over REST; one that nobody has is none."""
    async with Proxy(orders={"a": 1}, late={"a": 1, "b": 3}) as proxy, client(proxy.address) as cluster:
        await cluster.refresh()
        cluster.name_topics(["late", "nobody's"])
        assert (await cluster.refresh()).brokers.keys() == {"a", "b"}
        assert (await cluster.read_topics(cluster.reader("a"))).topics.keys() == {"orders", "late"}
        known = await cluster.read_topics(cluster.reader("b"))
        assert await cluster.read_topics(cluster.reader("b"), known=known) is known


async def test_what_has_no_route_any_more_may_come_back() -> None:
    """All of its brokers may be away; they are reached at the Proxy that answers now."""
    async with (
        Proxy(orders={"a": 1}, other={"b": 1}) as first,
        Proxy(orders={"a": 1}) as second,
        client(first.address, second.address, topics=("orders", "other")) as cluster,
    ):
        await cluster.refresh()
        await first.stop()
        assert (await cluster.refresh()).brokers.keys() == {"a"}
        assert cluster.reader("b").address == second.address
        assert (await cluster.read_topics(cluster.reader("b"))).topics.keys() == {"other"}


async def test_a_topic_that_nobody_has() -> None:
    """Waiting may help: it may be created."""
    async with Proxy() as proxy, client(proxy.address) as cluster:
        with pytest.raises(NoBrokers, match="knows no broker that has topic orders"):
            await cluster.refresh()
    async with client(f"127.0.0.1:{unused_port()}") as cluster:
        with pytest.raises(Unreachable):
            await cluster.refresh()


async def test_a_name_server_is_no_proxy() -> None:
    async with Proxy(orders={"a": 1}) as proxy, client(proxy.address) as cluster:
        proxy.is_nameserver = True
        with pytest.raises(StartupError, match="is a name server, not a Proxy"):
            await cluster.refresh()


async def test_one_of_several_clusters_must_be_named() -> None:
    async with Proxy(orders={"a": 1}) as proxy, client(proxy.address, name="west") as cluster:
        with pytest.raises(StartupError, match="the topics are in the clusters: east"):
            await cluster.refresh()


async def test_one_that_is_not_well_is_told_as_what_it_is() -> None:
    async with Proxy() as proxy, client(proxy.address) as cluster:
        proxy.well = False
        with pytest.raises(StartupError, match=r"Proxy 127.*its name server is away"):
            await cluster.refresh()


async def test_a_topic_whose_route_is_refused_holds_up_no_other() -> None:
    """One that the account may not read; it is logged once, and again once it was there between."""
    both = ("orders", "secret")
    async with Proxy(orders={"a": 1}, secret={"b": 1}) as proxy, client(proxy.address, topics=both) as cluster:
        proxy.denied.add("secret")
        with capture_logs() as logged:
            for _ in range(2):
                assert (await cluster.refresh()).brokers.keys() == {"a"}
        warned = [each for each in logged if each["log_level"] == "warning"]
        assert [(each["topic"], "no right to it" in each["reason"]) for each in warned] == [("secret", True)]
        proxy.denied.clear()
        assert (await cluster.refresh()).brokers.keys() == {"a", "b"}
        proxy.denied |= {*both}
        with pytest.raises(StartupError, match="no right to it"):
            await cluster.refresh()


async def test_a_proxy_of_another_cluster_may_answer_at_the_address() -> None:
    """It is asked over each new connection."""
    async with Proxy(orders={"a": 1}) as proxy, client(proxy.address) as cluster:
        await cluster.refresh()
        proxy.cluster = "west"
        with pytest.raises(Unreachable, match="a Proxy of cluster west answers there, not of east"):
            await max_offset(cluster.reader("a"), "orders", 0)


async def test_an_unreadable_route_is_no_answer() -> None:
    for body in (b"", b"[]", b'{"brokerDatas":[{}]}', b'{"brokerDatas":[],"queueDatas":[1]}'):

        def serve(session: Session, request: Frame, body: bytes = body) -> None:
            is_route = request.code == Request.GET_ROUTEINFO_BY_TOPIC
            session.answer(request, 0 if is_route else Response.REQUEST_CODE_NOT_SUPPORTED, body=body)

        async with Peer(serve) as peer, client(peer.address) as cluster:
            with pytest.raises(StartupError, match="unreadable route of topic orders"):
                await cluster.refresh()


async def test_offsets_of_groups_are_asked_for_one_by_one() -> None:
    """Those that there are: a group may have consumed at one broker alone."""
    async with Proxy(orders={"a": 1, "b": 1}) as proxy, client(proxy.address) as cluster:
        proxy.offsets["b", "orders"] = 5
        await cluster.refresh()
        assert (await cluster.read_offsets(cluster.reader("a"), groups=["G"])).offsets == {}
        table = await cluster.read_offsets(cluster.reader("b"), groups=["G"])
        assert table.offsets == {("G", "orders"): {0: 5}}
        assert proxy.requests[-1].fields["setZeroIfNotFound"] == "false"
        assert await cluster.read_offsets(cluster.reader("b"), known=table, groups=["G"]) is table
        proxy.routes["log"] = {"a": 1}
        proxy.offsets["a", "log"] = 3
        beside = await cluster.read_offsets(cluster.reader("a"), beside=[("H", "log"), ("H", "nobody's")])
        assert (beside.offsets, beside.unread) == ({("H", "log"): {0: 3}}, "")
        proxy.denied.add("log")
        beside = await cluster.read_offsets(cluster.reader("b"), groups=["G"], beside=[("H", "log")])
        assert beside.offsets == table.offsets
        assert "NO_PERMISSION" in beside.unread
