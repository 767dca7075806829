"""The leader makes the target ready once, when all have adopted its assignment; anybody else does nothing."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.worker.agenda import Agenda
from replicator.worker.leader import Leader


class Scene:
    """A worker that leads, until somebody changes that."""

    def __init__(self, work: asyncio.TaskGroup) -> None:
        self.calls: list[str] = []
        self.done = True
        self.agenda = Agenda()
        self.agenda.make_ready = True
        self.coordinator: Any = SimpleNamespace(
            me="b",
            agreed=True,
            leads=lambda: True,
            holds_lease=lambda _: True,
            assignment=SimpleNamespace(generation=SimpleNamespace(leader="b")),
        )
        parts: list[Any] = [SimpleNamespace(), SimpleNamespace(), SimpleNamespace()]
        group, self.routes, self.progress = parts
        group.coordinator = self.coordinator
        group.publish_all = self._call("publish all")
        self.routes.make_ready = self._call("make ready")
        self.progress.save = self._call("save")
        self.progress.publish = self._call("publish")
        self.leader = Leader(group, self.routes, self.progress, self.agenda, work=work)

    def _call(self, name: str) -> Any:
        async def call(**_: object) -> bool:
            self.calls.append(name)
            return self.done

        return call


async def test_the_leader_makes_the_target_ready_once() -> None:
    async with asyncio.TaskGroup() as work:
        scene = Scene(work)
        scene.leader.lead()
        scene.leader.lead()
    assert scene.calls == ["make ready", "save", "publish"]
    assert not scene.agenda.make_ready
    assert not scene.agenda.plan


async def test_what_could_not_be_made_ready_is_planned_again() -> None:
    async with asyncio.TaskGroup() as work:
        scene = Scene(work)
        scene.done = False
        scene.leader.lead()
    assert scene.agenda.plan


async def test_what_is_found_while_the_target_is_made_ready_is_planned() -> None:
    """A topic that turned up at the source in that time would never be copied, since later looks know it."""
    async with asyncio.TaskGroup() as work:
        scene = Scene(work)

        async def make_ready() -> bool:
            await asyncio.sleep(0)
            scene.agenda.plan = True
            return True

        scene.routes.make_ready = make_ready
        scene.leader.lead()
    assert scene.agenda.plan


async def test_a_leader_that_ends_waits_for_no_broker() -> None:
    """Else a worker that is stopped would go on making topics, or not end at all."""
    async with asyncio.timeout(1), asyncio.TaskGroup() as work:
        scene = Scene(work)
        cut = asyncio.Event()

        async def make_ready() -> bool:
            try:
                await asyncio.Event().wait()
            finally:
                cut.set()
            return True

        scene.routes.make_ready = make_ready
        await scene.leader.end()  # there is nothing to end yet
        scene.leader.lead()
        await asyncio.sleep(0.01)
        await scene.leader.end()
        assert cut.is_set()
        await asyncio.sleep(0.01)
        scene.leader.lead()
        assert not scene.agenda.make_ready
        await scene.leader.end()  # before it has begun
    assert scene.calls == []
    assert scene.agenda.make_ready, "it is made once this worker leads again"


async def test_what_is_ready_is_saved_though_the_leader_ends() -> None:
    async with asyncio.TaskGroup() as work:
        scene = Scene(work)
        saving = asyncio.Event()

        async def save(**_: object) -> None:
            saving.set()
            await asyncio.sleep(0.01)
            scene.calls.append("saved")

        scene.progress.save = save
        scene.leader.lead()
        await saving.wait()
        await scene.leader.end()
    assert scene.calls == ["make ready", "saved", "publish"]


@pytest.mark.parametrize(
    "why", ["another leads", "it is another's assignment", "not agreed", "no lease", "nothing new"]
)
async def test_nothing_is_made_ready_otherwise(why: str) -> None:
    async with asyncio.TaskGroup() as work:
        scene = Scene(work)
        coordinator = scene.coordinator
        if why == "another leads":
            coordinator.leads = lambda: False
        elif why == "it is another's assignment":
            coordinator.assignment.generation.leader = "a"
        elif why == "not agreed":
            coordinator.agreed = False
        elif why == "no lease":
            coordinator.holds_lease = lambda _: False
        else:
            scene.agenda.make_ready = False
        wanted = scene.agenda.make_ready
        scene.leader.lead()
    assert not scene.calls
    assert scene.agenda.make_ready is wanted


@pytest.mark.parametrize("speaks", [True, False])
async def test_one_worker_publishes_all(speaks: bool) -> None:
    """The one that speaks for all."""
    async with asyncio.TaskGroup() as work:
        scene = Scene(work)
        scene.coordinator.speaks_for_all = lambda: speaks
        await scene.leader.publish_all()
    assert scene.calls == ["publish all"] * speaks
