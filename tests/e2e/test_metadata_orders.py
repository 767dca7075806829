"""Order configurations on real name servers: each of the target's has the source's, with its own brokers."""

from __future__ import annotations

from typing import Any

import pytest

from replicator.client.endpoint import Endpoint
from replicator.client.order import NAMESPACE
from replicator.client.security import Security
from replicator.protocol.codes import Request, Response
from replicator.sandbox import ClusterSpec
from replicator.sandbox.nameserver import NameServer
from tests.support.readiness import asked, changed
from tests.support.scene import Scene, SceneOf
from tests.support.traffic import tell_name_servers
from tests.support.worker import SYNC_QUICKLY, Worker, until

pytestmark = pytest.mark.timeout(300)

#: The broker of the target is `served-a`; its name servers keep a file each.
TWICE = ClusterSpec(name="served", version="4.9.7", name_servers=2)

#: `RequestCode`: what only this test asks of a name server.
GET_KV_CONFIG = 101
UPDATE_NAMESRV_CONFIG = 318


async def test_all_name_servers_of_the_target_follow_the_source(scene: SceneOf) -> None:
    """One that was away, one that has lost its file or was changed manually; and all when the source deletes it."""
    async with scene(target=TWICE, mistreated=(TWICE,), queues=2) as route:
        first, second = route.target.nameservers
        await at_the_source(route, "east-a:2")
        async with route.worker(*SYNC_QUICKLY) as worker:
            await until(lambda: both_have(route, "served-a:2"), what="both have it")
            await clients_are_told(route, "served-a:2")

            await second.kill()
            await at_the_source(route, "east-a:1")
            await until(lambda: has(first, route, "served-a:1"), what="changed while the other is away")
            await second.start()
            await until(lambda: has(second, route, "served-a:1"), what="the other has followed")
            await second.kill()
            (second.home / "namesrv" / "kvConfig.json").unlink()
            await second.start()
            await until(lambda: has(second, route, "served-a:1"), what="it has it again")

            await put(first, route, "served-a:7")
            await until(lambda: is_blocked(worker, first, "changed manually"))
            assert await has(first, route, "served-a:7")
            await changed(worker, on_drift="repair")
            await until(lambda: has(first, route, "served-a:1"), what="put right")

            fields = {"namespace": NAMESPACE, "key": route.topic}
            await tell_name_servers(route.source, Request.DELETE_KV_CONFIG, fields)
            await until(lambda: is_blocked(worker, second, "the source has deleted it"))
            assert await has(second, route, "served-a:1")
            await changed(worker, sync_deletes=True)
            await until(lambda: both_have(route, None), what="deleted at both")


async def at_the_source(route: Scene, value: str) -> None:
    """As `mqadmin updateOrderConf -m put`."""
    fields = {"namespace": NAMESPACE, "key": route.topic, "value": value}
    await tell_name_servers(route.source, Request.PUT_KV_CONFIG, fields)


async def put(nameserver: NameServer, route: Scene, value: str) -> None:
    fields = {"namespace": NAMESPACE, "key": route.topic, "value": value}
    assert (await ask(nameserver, Request.PUT_KV_CONFIG, fields)).code == Response.SUCCESS


async def has(nameserver: NameServer, route: Scene, value: str | None) -> bool:
    """Whether a name server has this configuration of the topic, or none."""
    answer = await ask(nameserver, GET_KV_CONFIG, {"namespace": NAMESPACE, "key": route.topic})
    assert answer.code in (Response.SUCCESS, Response.QUERY_NOT_FOUND), answer
    return (answer.fields["value"] if answer.code == Response.SUCCESS else None) == value


async def both_have(route: Scene, value: str | None) -> bool:
    return all([await has(each, route, value) for each in route.target.nameservers])


async def clients_are_told(route: Scene, value: str) -> None:
    """What a client is given of the topic, where name servers are to give it order configurations at all."""
    for each in route.target.nameservers:
        answer = await ask(each, UPDATE_NAMESRV_CONFIG, {}, b"orderMessageEnable=true")
        assert answer.code == Response.SUCCESS, answer
        answer = await ask(each, Request.GET_ROUTEINFO_BY_TOPIC, {"topic": route.topic})
        assert f'"orderTopicConf":"{value}"'.encode() in bytes(answer.body)


async def ask(nameserver: NameServer, code: int, fields: dict[str, str], body: bytes = b"") -> Any:
    endpoint = Endpoint(nameserver.address, Security())
    try:
        return await endpoint.invoke(code, fields, body=(body,) if body else ())
    finally:
        await endpoint.close()


async def is_blocked(worker: Worker, nameserver: NameServer, why: str) -> bool:
    """Whether the plan says why nothing is done at a name server."""
    plan = await asked(worker, "GET", "plan")
    return any(why in each["blocked"] for each in plan if each["broker"] == nameserver.address)
