"""Dead letters that are sent again from the page: to the queue that they were meant for, once."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlencode

import pytest

from replicator.admin import dead_letter_resend
from replicator.admin.dead_letter_resend import BeingSent, Resend
from replicator.admin.dead_letters import STEP
from replicator.client.cluster import Cluster as Client
from replicator.client.send import new_fields, send_batch
from replicator.observe.audit import Audit
from replicator.protocol.batch import new_entry
from replicator.protocol.properties import decode, encode
from replicator.routing.queue_map import Queue
from replicator.settings import RouteSettings
from replicator.state.connector_configs import Connectors
from replicator.state.store import Store
from replicator.worker.worker import Worker
from tests.support.scene import TARGET, Scene, SceneOf
from tests.support.traffic import configured, connected, raw_topic, send
from tests.support.worker import Worker as Process
from tests.support.worker import until

FLAGS = ("--on-error", "dead-letter", "--dead-letter-topic")
BIG = 200_000


def posted(worker: Process, offset: int) -> tuple[int, str]:
    """What a browser gets that presses the button: the status, and where it is sent or why not."""
    connection = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=60)
    headers = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded"}
    body = urlencode({"broker": "west-a", "offset": offset})
    connection.request("POST", "/page/connectors/route/resend", body, headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers.get("location", text)


def shown(worker: Process) -> str:
    """The view."""
    connection = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=60)
    connection.request("GET", "/page/dead-letters?connector=route")
    text = connection.getresponse().read().decode()
    connection.close()
    return text


async def resent(route: Scene) -> list[tuple[tuple[str, int], dict[str, str], int]]:
    """The messages at the target that were sent again: queue, properties, bytes."""
    found = await raw_topic(route.target, route.topic)
    return [
        (queue, decode(message.properties), message.body_length)
        for queue, messages in found.items()
        for message in messages
        if b"__RPL_RESENT" in message.properties
    ]


async def test_it_is_sent_once_whoever_presses_the_button(scene: SceneOf) -> None:
    """Ten times at two workers at once. What did not fit into the letter comes from the source."""
    async with scene(mistreated=(TARGET,), queues=1) as route:
        flags = (*FLAGS, f"{route.topic}-dead")
        async with route.worker(*flags) as one, route.worker(*flags, at="other") as other:
            await route.produce(5)
            async with configured(route.target, maxMessageSize=100_000):
                async with connected(route.source) as client:
                    await send(client, "east-a", route.topic, 0, [(b"x" * BIG, {"KEYS": "big"})])
                await route.produce(5, start=100)
                await until(lambda: any("without its body" in shown(each) for each in (one, other)))
                assert posted(one, 0)[0] == 503
                assert "refused" in shown(other)
            workers = [one, other] * 5
            told = await asyncio.gather(*(asyncio.to_thread(posted, worker, 0) for worker in workers))
            assert {status for status, _ in told} <= {303, 409}
            assert 303 in {status for status, _ in told}
            (found,) = await resent(route)
            queue, properties, size = found
            assert (queue, size, properties["KEYS"]) == (("west-a", 0), BIG, "big")
            assert properties["__RPL_ORIGIN"] == "east"
            assert "it+was+sent+before" in posted(other, 0)[1]
            assert len(await resent(route)) == 1
            assert re.search(r"sent</span> <span class=\"mono\">offset", shown(one))
            await route.produce(5, start=200)
            await until(lambda: sum(each.metric("foreign_messages_total") for each in (one, other)) == 1)
            events = [*one.events, *other.events]
            assert [event["actor"] for event in events if event["event"] == "dead letter sent again"] == [
                "page 127.0.0.1 (admin)"
            ]
            audits = [each.store / "audit.jsonl" for each in (one, other)]
            entries = [
                json.loads(line) for path in audits if path.exists() for line in path.read_text().splitlines()
            ]
            assert [entry["what"] for entry in entries if "letter" in entry.get("what", "")] == [
                "dead letter sent again"
            ]


async def test_an_attempt_whose_end_nobody_knows(
    scene: SceneOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Who began it just now may be at it; who died long ago may have sent it, which the target's queue shows."""
    async with scene(mistreated=(TARGET,), queues=1) as route:
        dead = f"{route.topic}-dead"
        async with route.worker(*FLAGS, dead) as worker:
            await route.produce(3)
            async with configured(route.target, maxMessageSize=100_000), connected(route.source) as client:
                await send(client, "east-a", route.topic, 0, [(b"x" * BIG, {"KEYS": "big"})])
                await until(lambda: "without its body" in shown(worker))
        async with connected(route.source) as source, connected(route.target) as target:
            context = SimpleNamespace(
                source=SimpleNamespace(cluster=source),
                target=SimpleNamespace(cluster=target),
                audit=Audit(tmp_path / "audit.jsonl"),
            )
            resend = resend_of(route, context, dead, tmp_path)
            await _begin(target, dead)
            with pytest.raises(BeingSent):
                await resend.carried_out()
            assert await resent(route) == []
            monkeypatch.setattr(dead_letter_resend, "_PATIENCE", -1.0)
            monkeypatch.setattr(dead_letter_resend, "now", lambda: 0.0)
            with pytest.raises(BeingSent, match="too slowly"):
                await resend.carried_out()
            monkeypatch.setattr(dead_letter_resend, "_PATIENCE", 0.0)
            with monkeypatch.context() as dying:
                dying.setattr(Resend, "_step", _dies_when_done(Resend._step))
                with pytest.raises(ConnectionError):
                    await resend.carried_out()
            assert len(await resent(route)) == 1
            assert (await resend.carried_out())["already"]
            assert (await resend.carried_out())["already"]
            assert len(await resent(route)) == 1
            context.audit.close()
            resend.worker.store.close()


async def _begin(target: Client, dead: str) -> None:
    """Somebody begins to send the first letter, and is not heard from again."""
    begun = new_entry(b"-", encode({STEP: "begun 0 0"}))
    await send_batch(target.writer("west-a"), new_fields(dead, 0), [begun])


def _dies_when_done(step: Any) -> Any:
    """Of `Resend._step`, which cannot say that the letter was sent."""

    async def dying(self: Resend, kind: str, letter: int, number: int) -> int:
        if kind == "done":
            raise ConnectionError
        written: int = await step(self, kind, letter, number)
        return written

    return dying


def resend_of(route: Scene, context: SimpleNamespace, dead: str, directory: Path) -> Resend:
    """Of the first letter, by a worker that has nothing but both clusters and the queue map of one queue."""
    store = Store(directory / "store")
    store.save_queue_map("route", route.topic, route.topic, {Queue("east-a", 0): Queue("west-a", 0)})
    identity = SimpleNamespace(source="east", target="west")
    worker = cast("Worker", SimpleNamespace(id="w", store=store, context=context, identity=identity))
    connectors = Connectors(store)
    connectors.bring("route", RouteSettings(topics=[route.topic], dead_letter_topic=dead, on_error="dead-letter"))
    return Resend(worker, connectors.get("route"), "west-a", 0)
