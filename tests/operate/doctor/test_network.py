"""What is said of name servers and brokers that do not answer, by what they do instead."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from replicator.client.cluster import Broker, Topology
from replicator.client.security import Security
from replicator.operate.doctor import network
from replicator.operate.doctor.finding import Level
from replicator.operate.doctor.network import Heard, judge_behind_proxy, judge_name_servers
from replicator.settings import ClusterSettings

ALIVE = Heard("a:9876", 2.4)
DEAD = Heard("b:9876", failure="b:9876 cannot be reached (Connection refused)")


def test_one_of_two_is_dead() -> None:
    """The route uses the other one; with none there is no route."""
    first, second = judge_name_servers("source", [ALIVE, DEAD])
    assert (first.level, first.message) == (Level.OK, "answers in 2 ms")
    assert (second.level, second.subject) == (Level.WARNING, "b:9876")
    assert "the route uses a:9876" in second.message
    assert "leave it out of --source" in second.advice
    assert [each.level for each in judge_name_servers("source", [DEAD])] == [Level.ERROR]


def test_brokers_behind_a_proxy() -> None:
    """What it does not tell of each is named, and nothing of it is an error."""
    topology = Topology("east", {name: Broker(name, {0: "p:8080"}) for name in ("b", "a")})
    found = [*judge_behind_proxy("source", topology, ClusterSettings(namesrv=["p:8080"], proxy=True))]
    assert [each.level for each in found] == [Level.OK, Level.NOT_CHECKED, Level.NOT_CHECKED, Level.OK]
    assert found[0].message == "brokers that have the topics: a, b"
    assert "a Proxy does not tell them" in found[1].message
    assert [each.check for each in judge_name_servers("source", [ALIVE], called="Proxy")] == ["source Proxy"]


@asynccontextmanager
async def silent() -> AsyncIterator[str]:
    """Somebody who takes connections and never says anything."""
    over = asyncio.Event()

    async def hang(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        over.set()


@pytest.mark.parametrize("tls", [None, ssl.create_default_context()], ids=["plain", "TLS"])
async def test_a_broker_that_hangs_is_told_from_one_that_is_away(
    monkeypatch: pytest.MonkeyPatch, tls: ssl.SSLContext | None
) -> None:
    """Its port and its address are right: no `nc -vz` finds out what is wrong with it."""
    monkeypatch.setattr(network, "_ANSWER", 0.5)
    security = Security(tls=tls)
    async with silent() as address:
        hung, _ = await network._master("source broker", "east-a", address, security, {}, vip_of=None)
        slave = await network._slave("source", "east-a", address, security)
    for found in (hung, slave):
        assert "it takes connections, and gives no answer within 0.5 s" in found.message
        assert found.advice.startswith("it hangs: look at its machine")
    away, _ = await network._master("source broker", "east-a", address, security, {}, vip_of=None)
    assert "it takes connections" not in away.message
    assert "brokerIP1" in away.advice
