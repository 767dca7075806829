"""A target broker loses the end of its queues, as by a restored disk: they are copied again, in order and once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from replicator.sandbox import ClusterSpec
from tests.support.alerts import fires, watching
from tests.support.older_store import OlderStore
from tests.support.scene import Scene, SceneOf
from tests.support.traffic import remove_topic, topics_of
from tests.support.worker import Worker, until

FORGETFUL = ClusterSpec(name="forgetful", version="4.9.7")
FORGETFUL_51 = ClusterSpec(name="forgetful", version="5.1.4")
FORGETFUL_5 = ClusterSpec(name="forgetful", version="5.5.0")
KEPT, LOST, LATER = 300, 200, 50

VERSIONS = pytest.mark.parametrize("spec", [FORGETFUL, FORGETFUL_5], ids=lambda spec: str(spec.version))


@asynccontextmanager
async def lossy(scene: SceneOf, spec: ClusterSpec, directory: Path, *flags: str) -> AsyncIterator[Loss]:
    """A route of one queue whose target has `KEPT` + `LOST` messages, of which its older store has `KEPT`."""
    async with (
        scene(target=spec, mistreated=(spec,), queues=1) as route,
        route.worker("--standalone", *flags) as worker,
    ):
        store = OlderStore(route.target, directory / "saved")
        await route.produce(KEPT)
        await worker.caught_up(route.topic, KEPT)
        await store.save()
        await route.produce(LOST, start=KEPT)
        await worker.caught_up(route.topic, KEPT + LOST)
        yield Loss(route, worker, store)


class Loss:
    """What such a test works with."""

    def __init__(self, route: Scene, worker: Worker, store: OlderStore) -> None:
        self.route = route
        self.worker = worker
        self.store = store

    async def copied_again(self) -> None:
        """Waits until the loss is counted, and then until the queue is whole."""
        (queue,) = await until(
            lambda: [q for q in self.worker.queues(self.route.topic) if q["target_lost"] == LOST],
            what="loss counted",
        )
        assert (queue["foreign"], queue["duplicates"], queue["gap_messages"]) == (0, 0, 0)
        await self.worker.caught_up(self.route.topic, 0)
        assert self.worker.metric("audit_differences_total") == 0, "the loss is counted already"


@VERSIONS
async def test_while_nothing_flows(scene: SceneOf, tmp_path: Path, spec: ClusterSpec) -> None:
    """Noticed without a new message, which then comes last."""
    async with lossy(scene, spec, tmp_path) as here, watching(tmp_path / "prometheus", [here.worker]) as prometheus:
        await here.store.restore()
        await here.copied_again()
        await here.store.shows(here.route.topic, KEPT + LOST)
        assert here.worker.metric("target_lost_messages_total") == LOST
        await fires(prometheus, "TargetLost")
        await here.route.produce(LATER, start=KEPT + LOST)
        await here.route.assert_clean_soon(KEPT + LOST + LATER)


@pytest.mark.parametrize("spec", [FORGETFUL, FORGETFUL_51, FORGETFUL_5], ids=lambda spec: str(spec.version))
async def test_before_the_next_message(scene: SceneOf, tmp_path: Path, spec: ClusterSpec) -> None:
    """What comes first after the return is not stored in front of what was lost."""
    async with lossy(scene, spec, tmp_path) as here:
        restoring = asyncio.create_task(here.store.restore())
        await here.route.produce(LATER, start=KEPT + LOST)  # while the target is away
        await restoring
        await here.copied_again()
        await here.route.assert_clean_soon(KEPT + LOST + LATER)


async def test_under_traffic(scene: SceneOf, tmp_path: Path) -> None:
    """With messages under way when it is killed."""
    async with lossy(scene, FORGETFUL_5, tmp_path) as here:
        async with here.route.producer(per_second=300) as producer:
            await until(lambda: here.worker.has_copied(here.route.topic, KEPT + LOST + 100))
            await here.store.restore()
            await until(lambda: here.worker.metric("target_lost_messages_total") >= LOST)
        await here.route.assert_clean_soon(KEPT + LOST + producer.acknowledged)


async def test_with_a_restart_in_between(scene: SceneOf, tmp_path: Path) -> None:
    """The worker is stopped, the target loses its tail, the worker starts."""
    async with lossy(scene, FORGETFUL, tmp_path) as here:
        assert await here.worker.drain() == 0
        await here.store.restore()
        await here.worker.start()
        await here.copied_again()
        await here.route.produce(LATER, start=KEPT + LOST)
        await here.route.assert_clean_soon(KEPT + LOST + LATER)


@pytest.mark.parametrize(("policy", "state"), [("fail", "FAILED"), ("wait", "WAITING")])
async def test_policies(scene: SceneOf, tmp_path: Path, policy: str, state: str) -> None:
    """Nothing is sent, and it is said how many messages are missing, once."""
    async with lossy(scene, FORGETFUL, tmp_path, "--on-target-loss", policy) as here:
        await here.store.restore()
        reason = f"the target has lost {LOST} messages that it had acknowledged, source offsets {KEPT} to"
        await until(
            lambda: any(q["state"] == state and reason in q["reason"] for q in here.worker.queues(here.route.topic))
        )
        await here.route.produce(LATER, start=KEPT + LOST)
        await asyncio.sleep(3)
        await here.store.shows(here.route.topic, KEPT)
        assert here.worker.metric("target_lost_messages_total") == LOST
        assert here.worker.metric("audit_differences_total") == 0
        _, readiness = here.worker.ask("GET", "/connectors/route/readiness")
        assert not readiness["ready"]
        assert any("the target has lost messages that it had acknowledged" in why for why in readiness["reasons"])


async def test_a_deleted_topic_is_there_again_before_the_next_message(scene: SceneOf) -> None:
    """All workers have missed it by then, so that the next message does not become the first one in it."""
    async with scene() as route:
        await route.produce(200)
        async with route.worker("--metadata-refresh-interval", "0.2") as worker:
            await worker.caught_up(route.topic, 200)
            await remove_topic(route.target, route.topic)

            async def is_back() -> bool:
                return any(route.topic in topics for topics in (await topics_of(route.target)).values())

            await until(is_back, what="the topic")
            await route.produce(1, start=200)
            await worker.caught_up(route.topic, 401)
        await route.assert_clean()


@pytest.mark.parametrize("state", ["PAUSED", "RUNNING"])
async def test_a_deleted_topic_is_said_to_be_lost(scene: SceneOf, state: str) -> None:
    """Also by a route that stands still, whose lag says nothing of it; all of it is copied again once it runs."""
    async with scene() as route:
        await route.produce(200)
        async with route.worker("--metadata-refresh-interval", "5") as here:
            await here.caught_up(route.topic, 200)
            if state == "PAUSED":
                here.ask("PUT", "/connectors/route/pause")
                await until(lambda: not here.running)
            await remove_topic(route.target, route.topic)

            def said() -> bool:
                ready = here.ask("GET", "/connectors/route/readiness")[1]
                return any("had acknowledged: there is no topic" in why for why in ready["reasons"])

            await until(said)
            if state == "PAUSED":
                assert here.metric("lag_messages", topic=route.topic) == 0
                here.ask("PUT", "/connectors/route/resume")
            await until(lambda: here.has_copied(route.topic, 400))
            assert here.metric("target_lost_messages_total") == 200
            await until(lambda: here.ask("GET", "/connectors/route/readiness")[1]["ready"])
        await route.assert_clean(200)
