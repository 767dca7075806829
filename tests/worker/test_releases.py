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
    """A route that selects `copied`."""

    name = "route"
    settings = SimpleNamespace(tags=["red"])

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

    def release(self, _: str, __: object, concerns: Callable[[str], bool], *, tags: frozenset[bytes]) -> Any:
        scene = self
        assert tags == {b"red"}

        class Release:
            def __init__(self) -> None:
                self.done = Released()

            def would(self, plan: list[str]) -> dict[str, Any]:
                return {"plan": plan}

            async def plan(self) -> list[str]:
                return [topic for topic in PARKED if concerns(topic) and topic not in scene.sent]

            async def begin(self, plan: list[str], mine: Callable[[], bool]) -> None:
                scene.began += 1
                await scene.beginning.wait()
                if scene.bugs:
                    scene.bugs -= 1
                    raise RuntimeError("a bug")
                assert mine() or scene.is_given_up
                self.done.waiting = {topic: cast("Any", SimpleNamespace(topic=topic, due=0)) for topic in plan}

            async def go_on(self, mine: Callable[[], bool]) -> None:
                await scene.due.wait()
                while self.done.waiting and mine():
                    topic = next(iter(self.done.waiting))
                    scene.sent.append(self.done.waiting.pop(topic).topic)

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
    async with scene(monkeypatch, *PARKED) as here:

        async def told() -> None:
            await here.releases.resume()
            await here.releases.resume()

        await here.releases.order(here.route, frozenset(), {}, publish=told)
        await here.releases.resume()
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
    """Whichever comes first, and though the route does not select any more what was ordered."""
    async with scene(monkeypatch, "b") as here:
        await here.releases.order(here.route, frozenset({"a"}), {}, publish=nothing)
        await here.releases.order(here.route, frozenset(), {}, publish=nothing)
        assert here.order["topics"] == ["", "a"]
        await here.releases.order(here.route, frozenset({"c"}), {}, publish=nothing)
        assert here.order["topics"] == ["", "a", "c"]
        here.due.set()
        await until(lambda: here.order["done"])
        assert here.sent == [*PARKED]


async def test_an_order_of_everything_is_of_what_the_route_selects(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was excluded since it was parked is not the route's any more."""
    async with scene(monkeypatch, "a", "c") as here:
        here.due.set()
        assert await here.releases.would(here.route, frozenset()) == {"plan": ["a", "c"]}
        assert await here.releases.would(here.route, frozenset({"b"})) == {"plan": ["b"]}
        await here.releases.order(here.route, frozenset(), {}, publish=nothing)
        assert here.order["topics"] == []
        await until(lambda: here.order["done"])
        assert here.sent == ["a", "c"]


async def test_the_same_order_waits_for_what_it_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """To read what the target has may take longer than a failover waits: begun again each time it would not end."""
    monkeypatch.setattr(releases, "_PATIENCE", 0.05)
    async with scene(monkeypatch, *PARKED) as here:
        here.beginning.clear()
        for _ in range(2):
            with pytest.raises(ReplicatorError, match="it takes long"):
                await here.releases.order(here.route, frozenset(), {}, publish=nothing)
        assert here.began == 1
        monkeypatch.setattr(releases, "_PATIENCE", 5.0)
        again = asyncio.create_task(here.releases.order(here.route, frozenset(), {}, publish=nothing))
        await asyncio.sleep(0.01)
        here.beginning.set()
        await again
        assert here.began == 1
        await here.releases.order(here.route, frozenset(), {}, publish=nothing)
        assert here.began == 2  # what it did before is done: this one shows how it stands


async def test_an_end_with_messages_that_wait_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the connector is deleted: nobody releases them any more."""
    told: list[int] = []
    monkeypatch.setattr(releases.log, "warning", lambda _, **more: told.append(more["messages"]), raising=False)
    async with scene(monkeypatch, *PARKED) as here:
        await here.releases.order(here.route, frozenset(), {}, publish=nothing)
        here.route.sync.ledger.kept.clear()
        here.due.set()
        await until(lambda: told == [3], seconds=5.0)
        assert here.sent == []


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
    async with scene(monkeypatch, *PARKED) as here:
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
    async with scene(monkeypatch, *PARKED) as here:
        here.bugs = 1
        monkeypatch.setattr(releases, "_PATIENCE", 0.1)
        with pytest.raises(ReplicatorError, match="could not be released"):
            await here.releases.order(here.route, frozenset(), {}, publish=nothing)
        await here.releases.resume()
        await asyncio.sleep(0.01)
        here.connector.state = State.RUNNING
        here.due.set()
        await asyncio.sleep(0.01)
        assert (here.sent, here.order["done"]) == ([], False)
        here.connector.state = State.STOPPED
        await here.releases.resume()
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
            await here.releases.resume()
            await asyncio.sleep(0.01)
        assert here.began == 1
