"""Nothing is asked of a broker, and nothing sent to it, before it has said which one it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from replicator.client import endpoint as endpoint_module
from replicator.client.cluster import Cluster
from replicator.client.endpoint import Endpoint
from replicator.errors import Unreachable
from replicator.protocol.codes import Request
from replicator.protocol.frame import Frame
from tests.client.peer import Peer, Session
from tests.client.test_cluster import info
from tests.support.worker import until

#: As a broker says it (26).
MASTER = {"brokerName": "east-a", "brokerClusterName": "east", "brokerRole": "ASYNC_MASTER"}


@pytest.fixture(autouse=True)
def _quick_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "_BACKOFF_FIRST", 0.01)


class Broker(Peer):
    """It says that it is `config`; None: to this account it does not say it."""

    def __init__(self, config: dict[str, str] | None) -> None:
        super().__init__(self._serve)
        self.config = config

    def _serve(self, session: Session, request: Frame) -> None:
        if request.code != Request.GET_BROKER_CONFIG:
            session.answer(request)
        elif self.config is None:
            session.answer(request, 16, remark="no right")
        else:
            session.answer(request, body="\n".join(f"{key}={value}" for key, value in self.config.items()).encode())

    @property
    def codes(self) -> list[int]:
        return [request.code for request in self.requests]


@asynccontextmanager
async def known(places: dict[int, str], others: dict[int, str] | None = None) -> AsyncIterator[Cluster]:
    """A cluster whose name server has `east-a` at `places` at first, and then at `others`."""
    tables = [info(east={"east-a": places}), info(east={"east-a": others or places})]
    async with Peer(
        lambda each, asked: each.answer(asked, body=tables.pop(0) if tables[1:] else tables[0])
    ) as peer:
        cluster = Cluster([peer.address])
        await cluster.refresh()
        yield cluster
        await cluster.close()


async def refused(endpoint: Endpoint) -> str:
    with pytest.raises(Unreachable) as caught:
        await endpoint.invoke(310, {})
    return str(caught.value)


async def test_it_is_asked_once_for_each_connection() -> None:
    """Before anything else."""
    async with Broker(MASTER) as broker, known({0: broker.address}) as cluster:
        for _ in range(3):
            await cluster.master("east-a").invoke(310, {})
        assert broker.codes == [26, 310, 310, 310]
        broker.sessions[0].transport.abort()
        await until(lambda: cluster.master("east-a").live is None)
        await cluster.reader("east-a").invoke(11, {})
        assert broker.codes[4:] == [26, 11]


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"brokerName": "east-b"}, "broker east-b of cluster east answers there, not east-a of east"),
        ({"brokerClusterName": "west"}, "broker east-a of cluster west answers there, not east-a of east"),
        ({"brokerRole": "SLAVE"}, "east-a is a slave there now"),
    ],
)
async def test_another_one_is_asked_nothing(config: dict[str, str], why: str) -> None:
    """Until it is the right one; its connection ends."""
    async with Broker(MASTER | config) as broker, known({0: broker.address}) as cluster:
        assert why in await refused(cluster.master("east-a"))
        assert set(broker.codes) == {26}
        assert cluster.master("east-a").live is None
        await until(lambda: all(session.lost for session in broker.sessions))
        broker.config = MASTER
        await cluster.master("east-a").invoke(310, {})
        assert broker.codes[-2:] == [26, 310]


async def test_a_slave_may_be_one_where_it_is_expected() -> None:
    """It is read while its master lives, or is gone."""
    slave = MASTER | {"brokerRole": "SLAVE"}
    async with Broker(slave) as there, Broker(MASTER) as master:
        async with known({0: master.address, 1: there.address}, {1: there.address}) as cluster:
            beside = cluster.slave("east-a")
            assert beside is not None
            await beside.invoke(11, {})
            await cluster.refresh()
            await cluster.reader("east-a").invoke(11, {})
        assert there.codes == [26, 11, 11]
        assert master.codes == []


async def test_an_account_that_may_not_ask_believes_the_name_servers() -> None:
    """What they say now, not what they said before."""
    async with Broker(None) as broker, Broker(MASTER) as elsewhere:
        async with known({0: broker.address}) as cluster:
            await cluster.master("east-a").invoke(310, {})
            assert broker.codes == [26, 310]
        async with known({0: broker.address}, {0: elsewhere.address}) as cluster:
            assert "the name servers now have east-a at another address" in await refused(cluster.master("east-a"))
            await cluster.master("east-a").invoke(310, {})
            assert elsewhere.codes == [26, 310]
