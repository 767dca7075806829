"""Who has consumers at the target, and what is not known of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from replicator.client.cluster import Cluster
from replicator.errors import BrokerRefused, Unreachable
from replicator.metadata import target_consumers as under_test
from replicator.metadata.target_consumers import TargetConsumers

BROKERS = ("x", "y", "z")


class Target:
    """`consuming` are the groups that each broker knows consumers of; what is raised instead of an answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.consuming: dict[str, set[str]] = {broker: set() for broker in BROKERS}
        self.failing: dict[tuple[str, str], Exception] = {}
        self.asked: list[str] = []
        self.time = 1000.0
        monkeypatch.setattr(under_test, "consumers", self.consumers)
        monkeypatch.setattr(under_test, "now", lambda: self.time)
        self.consumers_of = TargetConsumers(cast("Cluster", self))

    def brokers(self) -> dict[str, object]:
        return dict.fromkeys(self.consuming)

    def master(self, broker: str) -> Any:
        return SimpleNamespace(name=broker, refuse_pause=lambda: None)

    async def consumers(self, broker: Any, group: str) -> list[str]:
        self.asked.append(broker.name)
        for key in ((broker.name, group), (broker.name, "")):
            if key in self.failing:
                raise self.failing[key]
        return ["somebody"] if group in self.consuming[broker.name] else []


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    return Target(monkeypatch)


async def test_consumers_are_looked_for_at_all_brokers(target: Target) -> None:
    """One that was restarted knows of none for half a minute; one that does not answer holds up nothing."""
    target.consuming["z"] = {"G"}
    target.failing["x", ""] = Unreachable("x", "away")
    found = await target.consumers_of.read(["G", "H", "I"])
    assert {group for group, each in found.items() if each.live} == {"G"}
    assert (target.asked.count("x"), target.asked.count("z")) == (1, 3)
    target.consumers_of.begin()
    await target.consumers_of.read(["G"])
    assert target.asked.count("x") == 2


async def test_where_a_broker_does_not_answer_it_is_not_known(target: Target) -> None:
    """There alone: what the group has at others is as free as they say."""
    target.failing["x", ""] = Unreachable("x", "away")
    found = (await target.consumers_of.read(["G"]))["G"]
    assert "is not known (x: " in found.unsure(["x"])
    assert found.unsure(["y"]) == ""


async def test_a_refusal_is_about_one_group(target: Target) -> None:
    """An account may be denied one; of the others it is told."""
    target.failing["y", "G"] = BrokerRefused("y", 38, 16, "no permission")
    found = await target.consumers_of.read(["G", "H"])
    assert "no permission" in found["G"].unsure(["y"])
    assert found["H"].unsure(BROKERS) == ""


async def test_before_it_is_changed_a_group_is_looked_at_again(target: Target) -> None:
    """What was seen counts for a second; and the broker must answer."""
    await target.consumers_of.read(["G"])
    target.consuming["y"] = {"G", "forced"}
    assert await target.consumers_of.since_then("G", "x") == ""
    target.time += 2.0
    assert await target.consumers_of.since_then("forced", "x") == ""  # nobody has looked for its consumers
    assert await target.consumers_of.since_then("G", "x") == "it has consumers at the target by now"
    target.consuming["y"] = set()
    target.failing["x", ""] = Unreachable("x", "away")
    target.consumers_of.begin()
    await target.consumers_of.read(["G"])
    target.time += 2.0
    assert "not known" in await target.consumers_of.since_then("G", "x")
    assert await target.consumers_of.since_then("G", "y") == ""


async def test_how_long_a_group_has_had_no_consumers(target: Target) -> None:
    """It begins again when somebody consumes, when that is not known, and when nobody wants to know."""

    async def quiet() -> float:
        target.consumers_of.begin()
        return (await target.consumers_of.read_absences(["G"]))["G"][1]

    assert await quiet() == 0.0
    target.time += 40.0
    assert await quiet() == 40.0
    target.consuming["y"] = {"G"}
    assert await quiet() == 0.0
    target.consuming["y"] = set()
    target.time += 10.0
    assert await quiet() == 0.0
    target.time += 10.0
    assert await quiet() == 10.0
    target.failing["z", ""] = Unreachable("z", "away")
    target.time += 10.0
    assert await quiet() == 0.0
    del target.failing["z", ""]
    assert await quiet() == 0.0
    await target.consumers_of.read_absences([])
    target.time += 10.0
    assert await quiet() == 0.0
