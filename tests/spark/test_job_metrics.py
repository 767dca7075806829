"""What a Spark job says of itself while it runs, to a real Prometheus."""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from replicator.observe.catalogue import JOBS, PREFIX
from tests.support.alerts import panels_without_data
from tests.support.prometheus import check_page, running
from tests.support.scene import Scene, SceneOf
from tests.support.traffic import connected, raw_topic, send
from tests.support.worker import until
from tools.dashboards.jobs import JOBS as BOARD

#: Messages a second of two tasks together, and messages of two queues.
RATE = 400
FEW, MANY = 1200, 2400


def _port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def _more(here: Scene, queue: int, count: int) -> None:
    async with connected(here.source) as client:
        for start in range(0, count, 100):
            batch = [(b"%d" % number, {"KEYS": "k"}) for number in range(start, min(count, start + 100))]
            await send(client, "east-a", here.topic, queue, batch)


async def _foreign(here: Scene) -> None:
    """Somebody else's message in the queue that ends first."""
    async with connected(here.target) as client:
        await send(client, "west-a", here.topic, 0, [(b"foreign", {})])


async def test_a_running_backfill_is_on_the_board(command: Any, scene: SceneOf, tmp_path: Path) -> None:
    """Each panel has data, the names are those of the catalogue, and with the job the page ends."""
    port = _port()
    config = tmp_path / "prometheus.yml"
    job = {"job_name": "spark", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
    config.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}))
    async with scene(queues=2) as here:
        await _more(here, 0, FEW)
        await _more(here, 1, MANY)
        given = ["--source", here.source.namesrv, "--target", here.target.namesrv, "-o", "json"]
        given += ["--topics", here.topic, "--settle-timeout", "0.2", "--store-path", str(tmp_path / "store")]
        given += ["--rate-messages", str(RATE), "--batch-messages", "50", "--metrics-port", str(port)]
        async with running(config) as prometheus:
            await until(lambda: prometheus.ask("api/v1/targets")["activeTargets"])
            ending = asyncio.create_task(command("backfill", *given))
            page = await until(lambda: _moving(port))
            await _foreign(here)
            ended = await ending
            told = json.loads(ended.stdout)
            assert (ended.exit_code, told["copied"], told["queues"][0]["foreign"]) == (0, FEW + MANY, 1)
            assert not panels_without_data(prometheus, [BOARD])
        names = {family.name.removeprefix(PREFIX) for family in text_string_to_metric_families(page)}
        assert names == JOBS.keys()
        check_page(page)
        with pytest.raises(OSError, match="refused"):
            _page(port)


def _moving(port: int) -> str:
    """The page, once messages have come."""
    page = _page(port)
    families = {family.name.removeprefix(PREFIX): family for family in text_string_to_metric_families(page)}
    return page if families["job_messages"].samples[0].value else ""


def _page(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return str(answer.read().decode())


async def test_a_port_that_is_taken_is_told(command: Any, scene: SceneOf, tmp_path: Path) -> None:
    """Before anything is copied."""
    async with scene(queues=1) as here:
        await here.produce(5)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            given = ["--source", here.source.namesrv, "--target", here.target.namesrv, "--topics", here.topic]
            ended = await command("backfill", *given, "--store-path", tmp_path / "store", "--metrics-port", port)
        assert ended.exit_code != 0
        assert f"--metrics-port = {port} cannot be used" in str(ended.exception)
        assert not any((await raw_topic(here.target, here.topic)).values())
