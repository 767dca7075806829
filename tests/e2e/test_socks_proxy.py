"""A source, or a target, that only a SOCKS proxy reaches; an HTTP address server names name servers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.address_server import served
from tests.support.compatibility_record import tried
from tests.support.scene import SceneOf
from tests.support.socks import PASSWORD, USER, socks_proxy
from tests.support.traffic import judge, produce
from tests.support.worker import SYNC_QUICKLY, Worker, command, until


@pytest.mark.fetched
async def test_all_goes_through_it(scene: SceneOf, tmp_path: Path) -> None:
    """The proxy is away for a while: copying waits, says why, and goes on."""
    async with scene() as here, socks_proxy(tmp_path) as proxy:
        tried(here.source.spec.version, here.target.spec.version)
        with served(here.source.namesrv) as server:
            secret = {"REPLICATOR_SOURCE__SOCKS__PASSWORD": PASSWORD}
            socks = ("--source-socks-address", proxy.address, "--source-socks-username", USER)
            await produce(here.source, here.topic, 100)
            route = Worker(
                server.url,
                here.target,
                tmp_path,
                "--topics",
                here.topic,
                *socks,
                *SYNC_QUICKLY,
                environment=secret,
            )
            async with route as worker:
                await worker.caught_up(here.topic, 100)
                assert f":{here.source.namesrv.rpartition(':')[2]}" in proxy.log
                assert here.target.namesrv.rpartition(":")[2] not in proxy.log
                await proxy.stop()
                await produce(here.source, here.topic, 100, start=100)
                await until(lambda: f"the SOCKS proxy {proxy.address} is not reached" in worker.log)
                await proxy.start()
                await worker.caught_up(here.topic, 200)
                assert PASSWORD not in worker.log + json.dumps(worker.get("/connectors/route/config"))
                assert await worker.drain() == 0
            assert (await judge(here.source, here.target, here.topic)).clean
            asked = ("--source", server.url, "--target", here.target.namesrv, *socks, "-o", "json")
            told = json.loads(command(secret, "doctor", *asked).stdout)["findings"]
            seen = {each["check"]: each["level"] for each in told if each["check"].startswith("source ")}
            assert (seen["source address server"], seen["source name server"], seen["source broker"]) == ("ok",) * 3


@pytest.mark.fetched
async def test_a_target_behind_it(scene: SceneOf, tmp_path: Path) -> None:
    """Sends go through it to the VIP port; one whose answer was lost with the proxy comes once."""
    async with scene() as here, socks_proxy(tmp_path) as proxy:
        flags = ("--target-socks-address", proxy.address, "--target-socks-username", USER, *SYNC_QUICKLY)
        async with here.worker(*flags, environment={"REPLICATOR_TARGET__SOCKS__PASSWORD": PASSWORD}) as worker:
            async with here.producer(per_second=500) as producer:
                await worker.goes_on(here.topic, 300)
                await proxy.stop()
                await until(lambda: f"the SOCKS proxy {proxy.address} is not reached" in worker.log)
                await proxy.start()
                await worker.goes_on(here.topic, 300)
            await worker.caught_up(here.topic, producer.acknowledged, in_all=True)
            assert f":{here.target.brokers[0].vip_port}" in proxy.log
            assert here.source.namesrv.rpartition(":")[2] not in proxy.log
            assert PASSWORD not in worker.log
            assert await worker.drain() == 0
        await here.assert_clean(producer.acknowledged)
