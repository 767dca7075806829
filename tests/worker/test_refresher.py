"""When connectors are planned again: after each change of a cluster, whoever has noticed it first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replicator.client.discovery import Discovery
from replicator.client.topics import TopicConfig, TopicTable
from replicator.errors import BrokerRefused, Unreachable
from replicator.worker.agenda import Agenda
from replicator.worker.refresher import Refresher

BUSY = BrokerRefused("b:1", 26, 2, "busy")
ORDERS = TopicConfig(name="orders", read_queues=1, write_queues=1)


class Side:
    """A cluster of one broker, with its topics; `away` keeps its name servers from answering, `dead` the broker."""

    def __init__(self) -> None:
        self.table = TopicTable({"orders": ORDERS}, (b"1",))
        self.away = False
        self.dead: Exception | None = None
        self.address = "h:1"
        cluster: Any = SimpleNamespace(
            refresh=self._refresh,
            brokers=lambda: {"a": self},
            is_proxy=False,
            reader=lambda _: self,
            master=lambda _: self,
            is_master=lambda *_: True,
            shows_all=lambda *_: True,
            read_topics=self._read_topics,
            read_config=self._read_config,
        )
        self.discovery = Discovery(cluster, masters_only=False)

    async def _refresh(self) -> Any:
        if self.away:
            raise Unreachable(self.address, "refused")
        return SimpleNamespace(cluster="c", brokers={"a": SimpleNamespace(name="a", master="h:1")})

    async def _read_topics(self, _: object, *, known: TopicTable | None) -> TopicTable:
        return known if known is not None and known.raw == self.table.raw else self.table

    async def _read_config(self, _: object) -> None:
        if self.dead:
            raise self.dead

    def refuse_pause(self) -> None: ...

    def change(self) -> None:
        """A topic is deleted."""
        self.table = TopicTable({}, (b"2",))


class Scene:
    """A worker that has just been built; `planned` counts how often its routes were planned since."""

    def __init__(self) -> None:
        self.source, self.target = Side(), Side()
        self.agenda = Agenda()
        self.planned = 0

    async def built(self) -> None:
        for side in (self.source, self.target):
            await side.discovery.refresh()
        control: Any = SimpleNamespace(refresh=self._nothing)
        forgotten: Any = SimpleNamespace(follow=lambda *_: False)
        group: Any = SimpleNamespace(coordinator=SimpleNamespace(holds_lease=lambda _: False))
        routes: Any = Routes(self)
        runner: Any = None
        self.refresher = Refresher(
            self.source.discovery,
            self.target.discovery,
            control,
            None,
            forgotten=forgotten,
            group=group,
            routes=routes,
            runner=runner,
            agenda=self.agenda,
        )

    async def _nothing(self) -> None: ...


class Routes(list[Any]):
    """None, but planned all the same."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self.problems: dict[str, str] = {}
        self._scene = scene

    def plan(self) -> None:
        self._scene.planned += 1


@pytest.fixture
async def scene() -> Scene:
    scene = Scene()
    await scene.built()
    return scene


async def test_nothing_is_planned_while_nothing_changes(scene: Scene) -> None:
    await scene.refresher.refresh()
    assert scene.planned == 0
    scene.target.change()
    await scene.refresher.refresh()
    await scene.refresher.refresh()
    assert scene.planned == 1
    assert scene.agenda.make_ready


async def test_a_change_that_somebody_else_has_noticed_is_planned_by(scene: Scene) -> None:
    """As the leader does, which looks at the target before it makes topics there."""
    scene.target.change()
    await scene.target.discovery.refresh()
    await scene.refresher.refresh()
    assert scene.planned == 1
    await scene.refresher.refresh()
    assert scene.planned == 1


async def test_new_topics_are_planned_though_the_target_cannot_be_asked(scene: Scene) -> None:
    """Whoever fails over must know that they are missing; that it was not seen whole is told."""
    begun_at = scene.refresher.seen_at
    assert begun_at, "both were looked at when it was made"
    scene.source.change()
    scene.target.away = True
    await scene.refresher.refresh()
    assert scene.planned == 1
    (problem,) = scene.refresher.problems
    assert problem.startswith("the brokers of the target cannot be looked up: h:1 cannot be reached (refused): ")
    assert scene.refresher.seen_at == begun_at
    scene.target.away = False
    await scene.refresher.refresh()
    assert scene.planned == 1
    assert scene.refresher.problems == []
    assert scene.refresher.seen_at > begun_at


async def test_nothing_is_planned_while_the_source_cannot_be_asked(scene: Scene) -> None:
    """Which of its brokers are there is not known, so a topic that was deleted would look as if it was away."""
    scene.target.change()
    scene.source.away = True
    await scene.refresher.refresh()
    assert (scene.planned, len(scene.refresher.problems)) == (0, 1)
    scene.source.away = False
    await scene.refresher.refresh()
    assert scene.planned == 1


@pytest.mark.parametrize(
    ("away", "dead", "reason"),
    [
        (True, Unreachable("b:1", "refused"), "h:1 cannot be reached (refused)"),
        (False, Unreachable("b:1", "refused"), "b:1 cannot be reached (refused)"),
        (True, BUSY, ""),
        (False, BUSY, ""),
        (True, None, ""),
        (False, None, ""),
    ],
)
async def test_a_source_is_away_when_nothing_of_it_answers(
    scene: Scene, reason: str, dead: Exception | None, *, away: bool
) -> None:
    """Without its name servers alone it is copied on."""
    begun_at = scene.refresher.source_seen_at
    scene.source.away, scene.source.dead = away, dead
    await scene.refresher.refresh()
    assert scene.refresher.source_away == reason
    assert (scene.refresher.source_seen_at > begun_at) == (not reason)
    scene.source.away, scene.source.dead = False, None
    await scene.refresher.refresh()
    assert scene.refresher.source_away == ""
