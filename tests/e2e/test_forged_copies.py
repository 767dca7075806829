"""Provenance that others write at the target: with a secret nobody believes it, and without one it is compared."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import time
from urllib.error import HTTPError

import pytest

from replicator.routing.provenance import read
from replicator.settings.secret_file import write_secret
from tests.support.scene import Scene, SceneOf
from tests.support.traffic import connected, raw_topic, send
from tests.support.worker import Worker, until


async def forge(route: Scene, offset: int, *, stored: int = 0) -> None:
    """A copy of the message at `offset` of the source, stored there at `stored` (ms), as far as it says; 0: now."""
    source = f"east/{route.source.brokers[0].name}/0/{offset}/{stored or int(time() * 1000)}"
    async with connected(route.target) as client:
        told = {"__RPL_ORIGIN": "east", "__RPL_SOURCE": source}
        await send(client, route.target.brokers[0].name, route.topic, 0, [(b"forged", told)])


async def copied(route: Scene) -> list[int]:
    """Source offsets of the copies at the target, but for those that are forged."""
    (queue,) = (await raw_topic(route.target, route.topic)).values()
    found = (read(message.properties) for message in queue if message.body[4:] != b"forged")
    return [each.offset for each in found if each is not None]


def unready(worker: Worker) -> str:
    """Why a worker is not ready."""
    with pytest.raises(HTTPError) as refused:
        worker.get("/health/ready")
    return refused.value.read().decode()


async def has_copied(route: Scene, *offsets: int) -> bool:
    return await copied(route) == [*offsets]


async def test_forged_copies_make_nobody_skip_a_message(scene: SceneOf, tmp_path: Path) -> None:
    """At a restart, and for a group that knows nothing but the target: its own copies are sealed."""
    write_secret(tmp_path / "secret")
    signing = ("--worker-group-secret-file", str(tmp_path / "secret"))
    async with scene(queues=1) as route:
        await route.produce(50)
        async with route.worker(*signing) as worker:
            await worker.caught_up(route.topic, 50)
            await worker.drain()
        await forge(route, 75)
        await route.produce(30, start=50)
        async with route.worker(*signing) as worker:
            await worker.caught_up(route.topic, 30)
            assert worker.topic(route.topic)["foreign"] == 1
            assert "unsealed copies ignored" in worker.log
            await worker.drain()
        await forge(route, 90)
        await route.produce(20, start=80)
        async with route.worker(*signing, "--worker-group", f"{route.topic}-later", at="later") as worker:
            await worker.caught_up(route.topic, 20)
        assert await has_copied(route, *range(100))


async def test_a_secret_that_comes_after_the_copies(scene: SceneOf, tmp_path: Path) -> None:
    """A group that knows its position continues; one that lost everything stops, and says how to go on."""
    write_secret(tmp_path / "secret")
    signing = ("--worker-group-secret-file", str(tmp_path / "secret"))
    async with scene(queues=1) as route:
        await route.produce(20)
        async with route.worker() as worker:
            await worker.caught_up(route.topic, 20)
            await worker.drain()
        later = ("--worker-group", f"{route.topic}-later", *signing)
        async with route.worker(*later, at="later") as worker:
            await until(lambda: worker.topic(route.topic).get("state") == "FAILED")
            assert "20 messages in the target queue say that they are copies" in worker.topic(route.topic)["reason"]
        async with route.worker(*later, "--worker-group-accept-unsigned", at="later") as worker:
            await worker.caught_up(route.topic, 0)
            await worker.drain()
        await route.produce(20, start=20)
        async with route.worker(*later, at="later") as worker:
            await until(partial(has_copied, route, *range(40)))
        async with route.worker(*signing) as worker:
            await worker.caught_up(route.topic, 0)
        assert await has_copied(route, *range(40))


async def test_without_a_secret_a_forged_copy_stops_its_queue(scene: SceneOf, tmp_path: Path) -> None:
    """Even one that names the right store time; with a secret the group goes on where it was."""
    async with scene(queues=1) as route:
        await route.produce(50)
        async with route.worker() as worker:
            await worker.caught_up(route.topic, 50)
            await worker.drain()
        await route.produce(30, start=50)
        (queue,) = (await raw_topic(route.source, route.topic)).values()
        await forge(route, 75, stored=queue[75].store_timestamp)
        async with route.worker() as worker:
            await until(lambda: worker.topic(route.topic).get("state") == "FAILED")
            reason = worker.topic(route.topic)["reason"]
            assert "has a copy of source offset 75, and none of 50, which the source has" in reason
            await worker.drain()
        assert await has_copied(route, *range(50))
        write_secret(tmp_path / "secret")
        async with route.worker("--worker-group-secret-file", str(tmp_path / "secret")) as worker:
            await worker.caught_up(route.topic, 30)
        assert await has_copied(route, *range(80))


async def test_workers_with_different_secrets_do_not_copy_twice(scene: SceneOf, tmp_path: Path) -> None:
    """Who has another secret than the others copies nothing, and says why, however it is started."""
    for name in ("one", "two"):
        write_secret(tmp_path / name)
    async with scene(queues=1) as route:
        group = ("--worker-group", f"{route.topic}-group", "--worker-group-secret-file")
        await route.produce(20)
        async with route.worker(*group, str(tmp_path / "one")) as worker:
            await worker.caught_up(route.topic, 20)
            async with route.worker(*group, str(tmp_path / "two"), at="other") as other:
                await until(lambda: other.topic(route.topic).get("state") == "FAILED")
                assert "sign with another secret" in other.topic(route.topic)["reason"]
                (shown,) = worker.ask("GET", "/overview")[1]["connectors"]
                assert any("sign with another secret" in each for each in shown["notes"])
            accepting = (*group, str(tmp_path / "two"), "--worker-group-accept-unsigned")
            async with route.worker(*accepting, at="other") as other:
                await until(lambda: "this worker copies nothing" in unready(other))
                await route.produce(20, start=20)
                await until(partial(has_copied, route, *range(40)))
                assert "this worker copies nothing" in unready(other)
                assert not other.topic(route.topic)
        assert await has_copied(route, *range(40))
