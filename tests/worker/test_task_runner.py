"""Tasks that begin and end at the same time: what is begun belongs to the route that there is then."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from types import SimpleNamespace
from typing import Any

from structlog.testing import capture_logs

from replicator.group.coordinator import Decision
from replicator.group.membership import MemberState
from replicator.worker.task_runner import TaskRunner

TASK = "route/topic"


class FakeRoute:
    """Says which tasks were begun and not ended."""

    name = "route"

    def __init__(self) -> None:
        self.runs: set[str] = set()

    def lacks(self, task: str) -> bool:
        """Its topic has got a new queue."""
        return task not in self.runs

    def begin(self, tasks: Iterable[str]) -> set[str]:
        return set(tasks)

    def start(self, begun: set[str], running: Collection[str], _group: asyncio.TaskGroup) -> None:
        self.runs |= begun & set(running)

    async def stop(self, tasks: Collection[str]) -> None:
        self.runs -= set(tasks)

    async def fence(self) -> None:
        self.runs.clear()


class FakeRoutes:
    """One route, which can be another."""

    def __init__(self) -> None:
        self.route = FakeRoute()

    def __iter__(self) -> Any:
        return iter([self.route])

    def get(self, _name: str) -> FakeRoute:
        return self.route

    def why_unwanted(self, _task: str) -> str:
        return "its connector is paused"

    def share_rates(self) -> None:
        """Nothing to share."""


async def test_new_queues_and_a_new_configuration_at_once() -> None:
    """A queue is found while its route is rebuilt: it is copied by the new one alone."""
    first = asyncio.Event()
    calls: list[int] = []

    async def publish() -> bool:
        calls.append(1)
        if len(calls) == 1:
            await first.wait()
        return True

    async def save(*, force: bool) -> None:
        assert force

    changed = asyncio.Event()
    routes = FakeRoutes()
    coordinator: Any = SimpleNamespace(
        running={TASK}, owned={TASK}, came_from={TASK: "w9"}, me="w0", stage=MemberState.ONLINE
    )
    with capture_logs() as logged:
        async with asyncio.TaskGroup() as work:
            runner = TaskRunner(
                coordinator,
                routes,  # type: ignore[arg-type]
                SimpleNamespace(publish=publish, is_split=False),  # type: ignore[arg-type]
                SimpleNamespace(save=save),  # type: ignore[arg-type]
                target=SimpleNamespace(drop=lambda: None),  # type: ignore[arg-type]
                work=work,
                on_change=lambda _stopped: changed.set(),
            )
            before = routes.route
            runner.start_new_queues()
            await asyncio.sleep(0)
            runner.do(Decision(stop=frozenset({TASK})))
            await changed.wait()
            assert not coordinator.running
            routes.route = FakeRoute()
            runner.do(Decision(start=frozenset({TASK})))
            changed.clear()
            first.set()
            await changed.wait()
            changed.clear()
            runner.do(Decision(start=frozenset({TASK})))
            await changed.wait()
            runner.do(Decision(stop=frozenset({TASK})))
            changed.clear()
            await changed.wait()
            runner.do(Decision(start=frozenset({TASK})))
            changed.clear()
            await changed.wait()
            await runner.fence()
            changed.clear()
            runner.do(Decision(start=frozenset({TASK})))
            await changed.wait()
    assert not before.runs
    assert routes.route.runs == {TASK}
    assert {(each["task"], each["worker"]) for each in logged} == {(TASK, "w0")}
    assert [(each["event"], each["reason"], each.get("after")) for each in logged] == [
        ("task stopped", "its connector is paused", None),
        ("task started", "taken over from w9", None),
        ("task stopped", "its connector is paused", None),
        ("task started", "started again", "its connector is paused"),
        ("task started", "started again", "the lease was lost"),
    ]


async def test_a_connector_is_rebuilt_right_after_a_fence() -> None:
    """As by a restart over REST before the loop goes on: what ran is ended, and not what replaces it."""
    routes = FakeRoutes()
    before = routes.route
    before.runs = {TASK}
    coordinator: Any = SimpleNamespace(running={TASK}, owned={TASK}, came_from={}, me="w0", stage="online")
    async with asyncio.TaskGroup() as work:
        runner = TaskRunner(
            coordinator,
            routes,  # type: ignore[arg-type]
            SimpleNamespace(),  # type: ignore[arg-type]
            SimpleNamespace(),  # type: ignore[arg-type]
            target=SimpleNamespace(drop=lambda: None),  # type: ignore[arg-type]
            work=work,
            on_change=lambda _stopped: None,
        )
        ended = runner.fence()
        routes.route = FakeRoute()  # nothing runs, so nothing keeps it from being rebuilt
        await ended
    assert before.runs == set()


async def test_a_fence_while_tasks_start() -> None:
    """What was about to start does not, or it would run without a lease, and hold up the end of the worker."""
    published = asyncio.Event()

    async def publish() -> bool:
        await published.wait()
        return True

    async def save(*, force: bool) -> None:
        assert force

    routes, dropped = FakeRoutes(), []
    coordinator: Any = SimpleNamespace(running=set(), owned={TASK}, came_from={}, me="w0", stage=MemberState.ONLINE)
    async with asyncio.TaskGroup() as work:
        runner = TaskRunner(
            coordinator,
            routes,  # type: ignore[arg-type]
            SimpleNamespace(publish=publish, is_split=False),  # type: ignore[arg-type]
            SimpleNamespace(save=save),  # type: ignore[arg-type]
            target=SimpleNamespace(drop=lambda: dropped.append(1)),  # type: ignore[arg-type]
            work=work,
            on_change=lambda _stopped: None,
        )
        runner.do(Decision(start=frozenset({TASK})))
        await asyncio.sleep(0)
        assert coordinator.running == {TASK}
        await runner.fence()
        published.set()
    assert dropped
    assert not coordinator.running
    assert not routes.route.runs
