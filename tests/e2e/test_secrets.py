"""Secrets of a running group: what is written, told or shown anywhere is searched for them."""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from tests.support.clusters import ClusterPool
from tests.support.group import EAST, WEST, said
from tests.support.traffic import create_topic
from tests.support.worker import Worker, signing, until

pytestmark = pytest.mark.timeout(300)

_PAGES = (
    *("/getClusterInfo", "/connectors/list", "/connectors/route", "/connectors/route/config", "/plugin/list"),
    *("/connectors/route/status", "/connectors/route/queues", "/allocated/tasks", "/plugin/config", "/nowhere"),
    *("/metrics", "/health/ready", "/status", "/status/queues", "/openapi.json"),
)


async def test_no_secret_is_told_to_anybody(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Nor to the group: system topics, state files, logs at debug level and pages are searched in many forms."""
    source, target = await clusters.pair(EAST, WEST)
    topic = topic_name("t")
    await create_topic(source, topic, queues=1)
    secrets = {side: f"{side}/not+to be&seen?~{topic_name(side)}" for side in ("SOURCE", "TARGET", "TOKEN")}
    environment = {"REPLICATOR_REST__TOKEN": secrets["TOKEN"]}
    for side in ("SOURCE", "TARGET"):
        environment |= signing(side, "replicator", secrets[side])
    flags = ("--topics", topic, "--log-level", "debug", "--state-republish-interval", "1")
    workers = [
        Worker(source, target, tmp_path / name, "--worker-id", name, *flags, environment=environment)
        for name in ("one", "two")
    ]
    async with workers[0], workers[1]:
        ask = partial(workers[0].ask, token=secrets["TOKEN"])
        await until(lambda: ask("GET", "/connectors/route/tasks")[1][0]["state"] == "RUNNING")
        await until(lambda: not ask("GET", "/getClusterInfo")[1]["rebalancing"])
        wrong = {"topics": "(", "token": "x", "secret_key": "y"}
        written = [
            json.dumps(ask("POST", "/connectors/x", wrong)[1]),
            json.dumps(workers[1].ask("GET", "/status", token="x")),
        ]
        assert ask("PUT", "/connectors/route/rates", {"rate_messages": 9, "rate_bytes": 0})[0] == 200
        for worker in workers:
            written += [await asyncio.to_thread(_page, worker, path, secrets["TOKEN"]) for path in _PAGES]
            assert await worker.drain() == 0
            written += [worker.log, *(path.read_text() for path in worker.store.iterdir() if path.is_file())]
    told = await said(source)
    assert any('"rate_messages":9' in text for text in told)
    forms = {form for secret in secrets.values() for form in _forms(secret)}
    assert len(forms) == 3 * 4
    assert not [form for form in forms for text in [*written, *told] if form in text]


def _page(worker: Worker, path: str, token: str) -> str:
    request = urllib.request.Request(
        f"http://127.0.0.1:{worker.port}{path}", headers={"Authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return str(answer.headers) + str(answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return str(error.headers) + error.read().decode()


def _forms(secret: str) -> set[str]:
    """Plain, in base64 (without its end, which differs with what follows), and URL-encoded in both ways."""
    raw = secret.encode()
    return {secret, base64.b64encode(raw).decode()[:-4], quote(secret, safe=""), quote_plus(secret)}
