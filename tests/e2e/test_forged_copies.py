"""Provenance that others write at the target: with a secret nobody believes it, and without one it is compared."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import time

from replicator.routing.provenance import read
from replicator.settings.secret_file import write_secret
from tests.support.alerts import fires, rests, watching
from tests.support.forger import told_positions
from tests.support.readiness import asked, health
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


def copies_nothing(worker: Worker) -> bool:
    """Whether a worker is not ready, since it gives way to others."""
    return "this worker copies nothing" in str(health(worker))


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
    """Who comes with another secret than the others copies nothing, and says why, however often it is started."""
    for name in ("one", "two"):
        write_secret(tmp_path / name)
    async with scene(queues=1) as route:
        group = ("--worker-group", f"{route.topic}-group", "--worker-group-secret-file")
        accepting = (*group, str(tmp_path / "two"), "--worker-group-accept-unsigned")
        async with (
            route.worker(*group, str(tmp_path / "one")) as worker,
            watching(tmp_path / "prometheus", [worker]) as prometheus,
        ):
            await route.produce(20)
            await worker.caught_up(route.topic, 20)
            await until(partial(told_positions, route.source, f"{route.topic}-group"))
            copied = 20
            for flags in ((*group, str(tmp_path / "two")),) * 2 + (accepting,):
                async with route.worker(*flags, at="other") as other:
                    await until(partial(copies_nothing, other))
                    await route.produce(20, start=copied)
                    copied += 20
                    await until(partial(has_copied, route, *range(copied)))
                    assert copies_nothing(other)
                    assert not other.topic(route.topic)
                    (reason, *_) = (await asked(other, "GET", "readiness"))["reasons"]
                    assert "sign with another secret" in reason
                    assert "this worker copies nothing" not in str(worker.ask("GET", "/overview"))
                    (shown,) = worker.ask("GET", "/overview")[1]["connectors"]
                    assert any("sign with another secret" in each for each in shown["notes"])
                    await fires(prometheus, "OtherSecret")
                await rests(prometheus, "OtherSecret")
        assert await has_copied(route, *range(copied))


async def test_who_gave_way_copies_nothing_until_it_is_restarted(scene: SceneOf, tmp_path: Path) -> None:
    """Though it knows from before how far the others were: not how far they have come since. It is told to go on
    behind their copies as if it had no secret yet.
    """
    for name in ("one", "two"):
        write_secret(tmp_path / name)
    async with scene(queues=1) as route:
        group = ("--worker-group", f"{route.topic}-group", "--worker-group-secret-file")
        old, new = (*group, str(tmp_path / "one")), (*group, str(tmp_path / "two"))
        async with route.worker(*old) as staying:
            async with route.worker(*old, at="other") as other:
                await route.produce(20)
                await until(partial(has_copied, route, *range(20)))
                await other.drain()
            async with route.worker(*new, at="other") as other:
                await until(partial(copies_nothing, other))
                await route.produce(20, start=20)
                await until(partial(has_copied, route, *range(40)))
                await staying.drain()
                await route.produce(20, start=40)
                await until(partial(copies_nothing, other))
                assert await has_copied(route, *range(40))
                await other.drain()
        async with route.worker(*new, "--worker-group-accept-unsigned", at="other"):
            await until(partial(has_copied, route, *range(60)))
