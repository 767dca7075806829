"""Parked messages are released once, whoever asks for it meanwhile; what was ordered before remains ordered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from replicator.connector.release import Released
from replicator.errors import ReplicatorError
from replicator.state.connector_configs import State
from replicator.worker import releases
from replicator.worker.releases import Releases
from tests.support.worker import until

#: Topics with a parked message each.
PARKED = ("a", "b", "c")


class Ledger:
    """What the group knows of a route."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        return self.kept.get(key)

    def put(self, key: str, value: Any) -> None:
        self.kept[key] = value


class Route:
    """A route that copies `copied`."""

    name = "route"

    def __init__(self, *copied: str) -> None:
        self.copied = {*copied}
        self.sync = SimpleNamespace(ledger=Ledger())
        self.topics = SimpleNamespace(is_copied=lambda topic: topic in self.copied)


class Scene:
    """A worker `w1` with one route, and what was sent by its releases; all of it is due later."""

    def __init__(self, route: Route, state: State, work: asyncio.TaskGroup) -> None:
        self.route = cast("Any", route)
        self.sent: list[str] = []
        self.due = asyncio.Event()
        self.beginning = asyncio.Event()
        self.beginning.set()
        self.is_given_up = False
        self.bugs = self.began = 0
        self.connector = SimpleNamespace(state=state)
        connectors = SimpleNamespace(all=lambda: {"route": self.connector})
        context = SimpleNamespace(settle_timeout=0.0)
        routes = _Routes({"route": route})
        self.releases = Releases(
            "w1", cast("Any", routes), cast("Any", connectors), cast("Any", context), work=work
        )

    def release(self, _: str, __: object, concerns: Callable[[str], bool]) -> Any:
        scene = self

        class Release:
            done = Released()

            async def plan(self) -> list[str]:
                return [topic for topic in PARKED if concerns(topic) and topic not in scene.sent]

            async def begin(self, plan: list[str], mine: Callable[[], bool]) -> None:
                scene.began += 1
                await scene.beginning.wait()
                if scene.bugs:
                    scene.bugs -= 1
                    raise RuntimeError("a bug")
                assert mine() or scene.is_given_up
                self.waiting = plan

            async def go_on(self, mine: Callable[[], bool]) -> None:
                await scene.due.wait()
                for topic in self.waiting:
                    if mine():
                        scene.sent.append(topic)

        return Release()

    @property
    def order(self) -> Any:
        return self.route.sync.ledger.get("release")


class _Routes(dict[str, Any]):
    def __iter__(self) -> Any:
        return iter(self.values())


@asynccontextmanager
async def scene(
    monkeypatch: pytest.MonkeyPatch, *copied: str, state: State = State.STOPPED
) -> AsyncIterator[Scene]:
    async with asyncio.TaskGroup() as work:
        made = Scene(Route(*copied), state, work)
        monkeypatch.setattr(releases, "Route", Route)
        monkeypatch.setattr(releases, "Release", made.release)
        yield made
        await made.releases.close()


async def nothing() -> None:
    return None


async def test_a_look_while_the_group_is_told_begins_no_second_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """To tell it takes long where brokers are dead."""
    async with scene(monkeypatch) as here:

        async def told() -> None:
            await here.releases.look()
            await here.releases.look()

        await here.releases.order(here.route, frozenset(), {}, publish=told)
        await here.releases.look()
        here.due.set()
        await until(lambda: here.order["done"])
        assert here.sent == [*PARKED]


async def test_a_second_order_keeps_what_the_first_has_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topic by topic; a topic that is copied again by then is left to the source."""
    async with scene(monkeypatch, "b", "c", state=State.RUNNING) as here:
        await here.releases.order(here.route, frozenset({"a"}), {}, publish=nothing)
        here.route.copied.discard("b")
        await here.releases.order(here.route, frozenset({"b"}), {}, publish=nothing)
        assert here.order["topics"] == ["a", "b"]
        here.due.set()
        await until(lambda: here.order["done"])
        assert here.sent == ["a", "b"]


async def test_an_order_of_everything_includes_what_was_ordered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever comes first."""
    async with scene(monkeypatch) as here:
        await here.releases.order(here.route, frozenset({"a"}), {}, publish=nothing)
        await here.releases.order(here.route, frozenset(), {}, publish=nothing)
        assert here.order["topics"] == []
        await here.releases.order(here.route, frozenset({"c"}), {}, publish=nothing)
        assert here.order["topics"] == []
        here.due.set()
        await until(lambda: here.order["done"])
        assert here.sent == [*PARKED]


async def test_what_is_done_is_not_ordered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next order stands for itself."""
    async with scene(monkeypatch) as here:
        here.due.set()
        await here.releases.order(here.route, frozenset({"a"}), {}, publish=nothing)
        await until(lambda: here.order["done"])
        await here.releases.order(here.route, frozenset({"b"}), {}, publish=nothing)
        assert here.order["topics"] == ["b"]
        await until(lambda: here.order["done"])
        assert here.sent == ["a", "b"]


async def test_another_worker_takes_over_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when this one was paused: nothing more is sent here, and nothing is said to be done."""
    monkeypatch.setattr(releases, "_PATIENCE", 0.5)
    async with scene(monkeypatch) as here:
        here.beginning.clear()
        here.due.set()
        ordered = asyncio.create_task(here.releases.order(here.route, frozenset(), {}, publish=nothing))
        await until(lambda: here.order is not None)
        here.is_given_up = True
        here.route.sync.ledger.put("release", {**here.order, "by": "w2"})
        here.beginning.set()
        with pytest.raises(ReplicatorError, match="another worker sees to it"):
            await ordered
        assert (here.sent, here.order["done"]) == ([], False)


async def test_a_release_that_has_ended_is_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a bug, and after a moment in which the route was running again."""
    async with scene(monkeypatch) as here:
        here.bugs = 1
        monkeypatch.setattr(releases, "_PATIENCE", 0.1)
        with pytest.raises(ReplicatorError, match="could not be released"):
            await here.releases.order(here.route, frozenset(), {}, publish=nothing)
        await here.releases.look()
        await asyncio.sleep(0.01)
        here.connector.state = State.RUNNING
        here.due.set()
        await asyncio.sleep(0.01)
        assert (here.sent, here.order["done"]) == ([], False)
        here.connector.state = State.STOPPED
        await here.releases.look()
        await until(lambda: here.order["done"])
        assert here.sent == [*PARKED]


async def test_after_a_bug_a_release_waits_longer_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others look every two seconds, but not at one that waits."""
    async with scene(monkeypatch) as here:
        here.bugs = 3
        monkeypatch.setattr(releases, "_PATIENCE", 0.1)
        monkeypatch.setattr(releases, "_BACKOFF_FIRST", 30.0)
        monkeypatch.setattr(releases, "_BACKOFF_MOST", 60.0)
        with pytest.raises(ReplicatorError, match="a bug"):
            await here.releases.order(here.route, frozenset(), {}, publish=nothing)
        for _ in range(5):
            await here.releases.look()
            await asyncio.sleep(0.01)
        assert here.began == 1
