"""Whether a target broker gets the group that it wants for a retry topic, with source brokers that are down."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.connector import retry_groups as module
from replicator.connector.retry_groups import RetryGroups
from replicator.errors import RequestTimeout, Unreachable
from replicator.routing.plan import TopicPlan
from replicator.routing.queue_map import Queue


def plan(group: str = "g_orders") -> TopicPlan:
    name = f"%RETRY%{group}"
    return TopicPlan(topic=name, target_topic=name, queue_map={Queue("a", 0): Queue("x", 0)})


class Broker:
    """Has `groups`; or fails, and takes `seconds` for that."""

    def __init__(self, *groups: str, fails: Exception | None = None, seconds: float = 0.0) -> None:
        self.groups = groups
        self.fails = fails
        self.seconds = seconds
        self.address = f"{id(self)}:1"
        self.asked = 0
        self.pausing = False

    def refuse_pause(self) -> None:
        if self.pausing:
            raise Unreachable(self.address, "refused")


class Scene:
    """Source brokers by name, and target broker `x`; `made` are the groups that were made there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **brokers: Broker) -> None:
        self.made: list[str] = []
        self.target = Broker()
        monkeypatch.setattr(module, "read_groups", self._read)
        monkeypatch.setattr(module, "write_group", self._write)
        source: Any = SimpleNamespace(brokers=lambda: brokers, reader=brokers.__getitem__)
        target: Any = SimpleNamespace(master=lambda _: self.target, writer=lambda _: self.target)
        self.groups = RetryGroups(source, target)

    async def _read(self, broker: Broker) -> Any:
        broker.asked += 1
        await asyncio.sleep(broker.seconds)
        if broker.fails is not None:
            raise broker.fails
        return SimpleNamespace(groups=dict.fromkeys(broker.groups))

    async def _write(self, _: Broker, config: dict[str, str]) -> None:
        self.made.append(config["groupName"])


async def test_a_group_that_no_cluster_has_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the source are synced by the metadata task."""
    scene = Scene(monkeypatch, a=Broker("other"), b=Broker("g_known"))
    await asyncio.gather(*(scene.groups.make(plan(name)) for name in ("g_orders", "g_known")))
    assert scene.made == ["g_orders"]
    assert scene.target.asked == 1


async def test_a_source_broker_that_is_down_matters_only_where_no_other_has_the_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    down = Broker(fails=RequestTimeout("a:1", 351, 3.0))
    scene = Scene(monkeypatch, a=down, b=Broker("g_known"))
    await scene.groups.make(plan("g_known"))
    with pytest.raises(Unreachable, match="did not answer request 351"):
        await scene.groups.make(plan("g_orders"))
    assert scene.made == []
    assert down.asked == 1, "each question would take seconds"


async def test_a_broker_whose_connection_has_just_failed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    down = Broker()
    down.pausing = True
    await Scene(monkeypatch, a=down, b=Broker("g_known")).groups.make(plan("g_known"))
    assert down.asked == 0


async def test_nobody_waits_for_the_answer_of_another_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """One topic's group is asked of a dead broker; meanwhile another's, of a broker that lives."""
    slow = Broker(seconds=30.0)
    scene = Scene(monkeypatch, a=slow)
    waiting = asyncio.create_task(scene.groups.make(plan()))
    await asyncio.sleep(0.01)
    async with asyncio.timeout(1.0):
        assert await scene.groups._groups(Broker("g")) == {"g"}  # type: ignore[arg-type]
    waiting.cancel()


async def test_topics_that_are_none_of_a_group_need_none(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, a=Broker(fails=Unreachable("a:1", "refused")))
    await scene.groups.make(TopicPlan(topic="orders", target_topic="orders", queue_map={}))
    assert scene.made == []
