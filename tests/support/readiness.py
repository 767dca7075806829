"""Whether a worker would have its target switched to, and whether groups would go on there at the same message."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any

from replicator.routing import provenance
from replicator.sandbox import Cluster
from tests.support.offsets import offsets_of
from tests.support.traffic import raw_topic
from tests.support.worker import Worker, until

__all__ = ["asked", "changed", "exact", "health", "ready"]


def health(worker: Worker) -> tuple[int, dict[str, str]]:
    """The status of /health/ready, and its reasons."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{worker.port}/health/ready", timeout=10) as answer:
            return answer.status, json.load(answer)["reasons"]
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["reasons"]


async def asked(worker: Worker, method: str, what: str, body: Any = None) -> Any:
    """What a worker's REST says of its route."""
    status, found = await asyncio.to_thread(worker.ask, method, f"/connectors/route/{what}", body)
    assert status == 200, found
    return found


async def changed(worker: Worker, **settings: object) -> None:
    """Gives the route other settings."""
    config = await asked(worker, "GET", "config")
    status, found = await asyncio.to_thread(worker.ask, "PUT", "/connectors/route", config | settings)
    assert status == 200, found


async def ready(worker: Worker) -> dict[str, Any]:
    """Waits until nothing stands in the way of a switch."""
    told: dict[str, Any] = {}

    async def look() -> bool:
        if worker.get("/status")["topics"]:  # it has begun
            told.update(await asked(worker, "GET", "readiness"))
        return bool(told.get("ready"))

    try:
        await until(look, what="ready to switch")
    except TimeoutError:
        raise AssertionError(f"{told.get('reasons')}\n{worker.log[-3000:]}") from None
    return told


async def exact(source: Cluster, target: Cluster, group: str, topic: str, target_topic: str = "") -> None:
    """At the target the group has before it the copies of what it has before it at the source, and no other."""
    there = await offsets_of(target, group, target_topic or topic)
    here = await offsets_of(source, group, topic)
    assert there
    for lane, messages in (await raw_topic(target, target_topic or topic)).items():
        for message in messages:
            copy = provenance.read(message.properties)
            if copy is None or lane not in there or (copy.broker, copy.queue_id) not in here:
                continue
            consumed = copy.offset < here[copy.broker, copy.queue_id]
            assert (message.queue_offset < there[lane]) == consumed, (lane, message.queue_offset, there, here)
