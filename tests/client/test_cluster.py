"""Clusters as their name servers tell them, and where to read and write when masters come and go."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.client.brokers import read_config
from replicator.client.cluster import Broker, Cluster, Topology, _read_topology
from replicator.client.nameservers import NoBrokers
from replicator.errors import ProtocolError, StartupError, Unreachable
from replicator.protocol.codes import Request
from replicator.protocol.fastjson import parse
from replicator.protocol.frame import Frame
from replicator.sandbox import ClusterSpec
from tests.client.peer import Peer, Session, unused_port
from tests.support.clusters import ClusterPool
from tests.support.worker import until


def info(**clusters: dict[str, dict[int, str]]) -> bytes:
    """The answer to 106, in fastjson's words."""
    table = ",".join(
        f'"{broker}":{{"brokerAddrs":{{{",".join(f"{i}:{json.dumps(a)}" for i, a in addresses.items())}}}}}'
        for brokers in clusters.values()
        for broker, addresses in brokers.items()
    )
    names = json.dumps({name: list(brokers) for name, brokers in clusters.items()})
    return f'{{"brokerAddrTable":{{{table}}},"clusterAddrTable":{names}}}'.encode()


def topology(data: bytes, name: str | None = None) -> Topology:
    return _read_topology(parse(data), "ns:9876", name)


EAST = {"east-a": {0: "h:10911", 1: "h:10921"}, "east-b": {2: "h:10931"}}


def test_the_only_cluster_is_meant() -> None:
    """Its brokers have their members by id."""
    read = topology(info(east=EAST))
    assert read.cluster == "east"
    assert read.brokers["east-a"].addresses == {0: "h:10911", 1: "h:10921"}
    assert read.brokers["east-a"].readable == read.brokers["east-a"].master == "h:10911"
    assert read.brokers["east-b"].master is None
    assert read.brokers["east-b"].readable == "h:10931"


def test_one_of_several_clusters_must_be_named() -> None:
    """All are told, so that one can be chosen; one without brokers does not count."""
    two = info(east=EAST, west={"west-a": {0: "w:10911"}}, gone={})
    with pytest.raises(StartupError, match="knows the clusters: east, west") as caught:
        topology(two)
    assert "cluster" in caught.value.hint
    assert list(topology(two, "west").brokers) == ["west-a"]
    with pytest.raises(StartupError, match="east, west"):
        topology(two, "gone")
    assert topology(info(east=EAST, gone={})).cluster == "east"


def test_no_cluster_at_all() -> None:
    """The way out is to start a broker."""
    for data in (info(), b'{"brokerAddrTable":null,"clusterAddrTable":null}'):
        with pytest.raises(StartupError, match="no broker is registered") as caught:
            topology(data)
        assert "start a broker" in caught.value.hint


def test_brokers_without_members_are_left_out() -> None:
    """As right after their end."""
    assert list(topology(info(east={**EAST, "east-c": {}})).brokers) == ["east-a", "east-b"]


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"1",
        b"{}",
        b'{"clusterAddrTable":{"a":["b"]},"brokerAddrTable":{"b":{}}}',
        b'{"clusterAddrTable":{"a":["b"]},"brokerAddrTable":{"b":{"brokerAddrs":{"x":"h:1"}}}}',
        b'{"clusterAddrTable":[1],"brokerAddrTable":{}}',
        b'{"clusterAddrTable":{"a":[["b"]]},"brokerAddrTable":{"b":{"brokerAddrs":{}}}}',
    ],
)
def test_an_unreadable_list_is_a_protocol_error(data: bytes) -> None:
    """It names the name server."""
    with pytest.raises(ProtocolError, match="ns:9876"):
        topology(data)


JSON = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab0"), inner, max_size=3),
    max_leaves=8,
)


@given(st.fixed_dictionaries({"clusterAddrTable": JSON, "brokerAddrTable": JSON}))
def test_any_list_is_read_or_refused(data: object) -> None:
    """Never any other exception."""
    try:
        assert isinstance(_read_topology(data, "ns:9876", None), Topology)
    except (ProtocolError, StartupError):
        return


async def test_a_broker_in_the_place_of_a_name_server_is_told() -> None:
    """A common mistake, with its way out."""
    async with Peer(lambda session, request: session.answer(request, 3)) as peer:
        cluster = Cluster([peer.address])
        with pytest.raises(StartupError, match="is a broker, not a name server") as caught:
            await cluster.refresh()
        assert "9876" in caught.value.hint
        await cluster.close()


async def test_a_proxy_in_the_place_of_a_name_server_is_told() -> None:
    """It has routes, but nothing that tells of topics, groups and offsets: what to name instead is said."""

    def proxy(session: Session, request: Frame) -> None:
        session.answer(request, 17 if request.code == Request.GET_ROUTEINFO_BY_TOPIC else 3)

    async with Peer(proxy) as peer:
        cluster = Cluster([peer.address])
        with pytest.raises(StartupError, match="is a Proxy, not a name server") as caught:
            await cluster.refresh()
        assert "name servers" in caught.value.hint
        await cluster.close()


async def test_a_refusal_names_code_and_remark() -> None:
    """As with access control in front of the name server."""
    async with Peer(lambda session, request: session.answer(request, 16, remark="no right")) as peer:
        cluster = Cluster([peer.address])
        with pytest.raises(StartupError, match=r"NO_PERMISSION \(16\), no right"):
            await cluster.refresh()
        await cluster.close()


async def test_a_name_server_that_knows_nobody_is_no_answer() -> None:
    """As right after its start; the next one is asked, and first from then on, until that one forgets too."""
    tables = {"first": info(), "second": info(east=EAST)}

    def answering(name: str) -> Peer:
        return Peer(lambda session, request: session.answer(request, body=tables[name]))

    async with answering("first") as first, answering("second") as second:
        cluster = Cluster([first.address, second.address])
        for _ in range(2):
            assert (await cluster.refresh()).cluster == "east"
        assert (len(first.requests), len(second.requests)) == (1, 2)
        tables.update(first=tables["second"], second=tables["first"])
        assert (await cluster.refresh()).cluster == "east"
        await cluster.close()


async def test_a_name_server_that_does_not_know_the_cluster_yet_is_no_answer() -> None:
    """It knows another one so far."""
    tables = [info(west=EAST), info(west=EAST, east=EAST)]
    async with (
        Peer(lambda session, request: session.answer(request, body=tables[0])) as first,
        Peer(lambda session, request: session.answer(request, body=tables[1])) as second,
    ):
        cluster = Cluster([first.address, second.address], name="east")
        assert (await cluster.refresh()).cluster == "east"
        await cluster.close()


UNWELL = pytest.mark.parametrize(
    ("code", "body"),
    [(1, b""), (2, b""), (16, b""), (3, b""), (0, b"[]"), (0, b"<html>")],
    ids=["error", "busy", "refusal", "no name server", "no list", "no JSON"],
)


@UNWELL
async def test_a_name_server_that_is_not_well_keeps_no_other_from_being_asked(code: int, body: bytes) -> None:
    """It answers, with an error or with what cannot be read."""
    async with (
        Peer(lambda session, request: session.answer(request, code, body=body)) as first,
        Peer(lambda session, request: session.answer(request, body=info(east=EAST))) as second,
    ):
        cluster = Cluster([first.address, second.address])
        for _ in range(2):
            assert (await cluster.refresh()).cluster == "east"
        assert (len(first.requests), len(second.requests)) == (1, 2)
        await cluster.close()


@UNWELL
async def test_when_no_name_server_is_well_the_error_names_each(code: int, body: bytes) -> None:
    """With its code and remark."""
    async with (
        Peer(lambda session, request: session.answer(request, code, body=body, remark="full")) as first,
        Peer(lambda session, request: session.answer(request, 2, remark="overloaded")) as second,
    ):
        cluster = Cluster([first.address, second.address])
        with pytest.raises(StartupError, match=r"SYSTEM_BUSY \(2\): overloaded") as caught:
            await cluster.refresh()
        assert all(address in caught.value.message for address in cluster.addresses)
        assert caught.value.hint
        assert code in (0, 3) or re.search(rf"\({code}\)[:,] full", caught.value.message)
        await cluster.close()


async def test_a_broker_among_name_servers_that_are_not_well_is_told() -> None:
    """That is the mistake in the settings; whether the others become well is not known."""
    async with (
        Peer(lambda session, request: session.answer(request, 2)) as busy,
        Peer(lambda session, request: session.answer(request, 3)) as broker,
    ):
        cluster = Cluster([busy.address, broker.address])
        with pytest.raises(StartupError, match=r"SYSTEM_BUSY.*is a broker, not a name server") as caught:
            await cluster.refresh()
        assert "9876" in caught.value.hint
        await cluster.close()


async def test_more_brokers_than_a_cluster_can_have_are_not_believed() -> None:
    """All that were ever named count: whoever answers in a name server's place may name others each time."""
    first, second = ({f"{name}-{i}": {0: "h:10911"} for i in range(2500)} for name in ("a", "b"))
    tables = [info(east=first), info(east=second), info(east=first)]
    async with Peer(lambda session, request: session.answer(request, body=tables.pop(0))) as peer:
        cluster = Cluster([peer.address])
        await cluster.refresh()
        with pytest.raises(StartupError, match="5,000 brokers"):
            await cluster.refresh()
        await cluster.refresh()
        await cluster.close()


async def test_an_older_answer_changes_nothing() -> None:
    """Of two looks at the same time, the one that was asked first is answered last."""
    held: list[tuple[Session, Frame]] = []

    def answer(session: Session, request: Frame) -> None:
        held.append((session, request))
        if len(held) == 2:
            for (at, each), port in zip(reversed(held), (2, 1), strict=True):
                at.answer(each, body=info(east={"east-a": {0: f"h:{port}0911"}}))

    async with Peer(answer) as peer:
        cluster = Cluster([peer.address])
        old, new = await asyncio.gather(cluster.refresh(), cluster.refresh())
        assert (old.brokers["east-a"].master, new.brokers["east-a"].master) == ("h:10911", "h:20911")
        assert cluster.brokers()["east-a"].master == "h:20911"
        await cluster.close()


async def test_what_is_forgotten_leaves_no_connection() -> None:
    """Nor an attempt at one."""

    def answer(session: Session, request: Frame) -> None:
        if request.code == Request.GET_BROKER_CLUSTER_INFO:
            session.answer(request, body=info(east={"a": {0: peer.address}}))
        elif request.code == Request.GET_BROKER_CONFIG:
            session.answer(request, body=b"brokerName=a\nbrokerClusterName=east\n")

    async with Peer(answer) as peer:
        cluster = Cluster([peer.address])
        await cluster.refresh()
        endpoint, writer = cluster.master("a"), cluster.writer("a")
        connection = await endpoint.connection()
        attempt = asyncio.create_task(writer.connection())
        await asyncio.sleep(0)
        cluster.forget("a")
        await asyncio.gather(attempt, return_exceptions=True)
        assert connection.closed
        assert writer._attempt is None
        await cluster.refresh()
        assert cluster.master("a") is not endpoint
        assert cluster.writer("a") is not writer
        await cluster.close()


async def test_brokers_that_may_register_are_waited_for_where_others_are_not_well() -> None:
    """Waiting helps there."""
    async with (
        Peer(lambda session, request: session.answer(request, 2)) as first,
        Peer(lambda session, request: session.answer(request, body=info())) as second,
    ):
        cluster = Cluster([first.address, second.address])
        with pytest.raises(NoBrokers):
            await cluster.refresh()
        await cluster.close()


async def test_when_no_name_server_knows_anybody_one_error_names_them_all() -> None:
    """Those that do not answer too; nothing is forgotten of what was known."""
    table = [info(east=EAST)]
    gone = f"127.0.0.1:{unused_port()}"
    async with (
        Peer(lambda session, request: session.answer(request, body=table[-1])) as first,
        Peer(lambda session, request: session.answer(request, body=info())) as second,
    ):
        cluster = Cluster([first.address, gone, second.address])
        await cluster.refresh()
        table.append(info())
        with pytest.raises(StartupError, match="no broker is registered") as caught:
            await cluster.refresh()
        assert all(address in caught.value.message for address in cluster.addresses)
        assert caught.value.hint == "start a broker there"
        assert cluster.brokers().keys() == {"east-a", "east-b"}
        await cluster.close()


async def test_brokers_that_vanish_are_remembered() -> None:
    """Whoever works with one waits for it; one that never was is unreachable."""
    tables = [info(east=EAST), info(east={"east-b": {0: "h:10931"}})]
    async with Peer(lambda session, request: session.answer(request, body=tables.pop(0))) as peer:
        cluster = Cluster([peer.address])
        await cluster.refresh()
        with pytest.raises(Unreachable, match="east-b"):
            cluster.writer("east-b")
        assert list((await cluster.refresh()).brokers) == ["east-b"]
        assert cluster.brokers().keys() == {"east-a", "east-b"}
        assert cluster.writer("east-a") is cluster.writer("east-a")
        assert cluster.writer("east-b").address == "h:10929"
        assert cluster.master("east-a") is cluster.reader("east-a")
        assert cluster.is_master("east-a", "h:10911")
        assert not cluster.is_master("east-a", "h:10921")
        for ask in (cluster.writer, cluster.master, cluster.reader):
            with pytest.raises(Unreachable, match="nowhere"):
                ask("nowhere")
        assert cluster.brokers()["east-b"] == Broker("east-b", {0: "h:10931"})
        await cluster.close()


async def test_a_broker_without_a_usable_address_is_out_of_reach() -> None:
    """That one alone, and for each thing that it is asked."""
    table = info(east={"east-a": {0: "h:10911"}, "east-b": {0: ":10911"}})
    async with Peer(lambda session, request: session.answer(request, body=table)) as peer:
        cluster = Cluster([peer.address])
        await cluster.refresh()
        assert cluster.writer("east-a").address == "h:10909"
        with pytest.raises(Unreachable, match="is not host:port"):
            cluster.writer("east-b")
        with pytest.raises(Unreachable, match="is not host:port"):
            await cluster.master("east-b").connection()
        await cluster.close()


async def test_a_slave_is_read_when_the_master_is_gone(clusters: ClusterPool) -> None:
    """The slave serves reads until the master is back; nothing can be written meanwhile."""
    async with clusters.fresh(ClusterSpec(name="pair", version="4.9.7", slaves=True)) as sandbox:
        (master,) = sandbox.brokers
        assert master.slave is not None
        cluster = Cluster([sandbox.namesrv])
        await cluster.refresh()
        assert cluster.reader("pair-a").address == master.address
        await master.kill()

        async def read_from(address: str) -> bool:
            await cluster.refresh()
            return cluster.reader("pair-a").address == address

        await until(lambda: read_from(master.slave.address if master.slave else ""))
        assert (await read_config(cluster.reader("pair-a"))).max_message_size > 0
        with pytest.raises(Unreachable):
            cluster.writer("pair-a")
        await master.start()
        await until(lambda: read_from(master.address))
        assert cluster.writer("pair-a").address == f"127.0.0.1:{master.vip_port}"
        await cluster.close()
