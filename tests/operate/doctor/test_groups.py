"""What is said of consumer groups and producers."""

from __future__ import annotations

from typing import Any

from replicator.client.app_clients import ConsumerClients
from replicator.client.groups import GroupTable
from replicator.metadata.groups import GroupSelector
from replicator.operate.doctor.finding import Finding, Level
from replicator.operate.doctor.groups import Applications, judge_consumers, judge_groups, judge_producers
from replicator.settings import Settings, load

CONSUMER = ConsumerClients(frozenset({"10.0.0.7"}), frozenset({"orders", "%RETRY%g"}), "CLUSTERING")


def settings(**more: object) -> Settings:
    return load({"source": {"namesrv": "a:1"}, "target": {"namesrv": "b:1"}} | more, file=None)


def applications(consumers: dict[str, ConsumerClients] | None = None, **groups: dict[str, Any]) -> Applications:
    table = GroupTable({name: {"groupName": name, **config} for name, config in groups.items()}, {}, ())
    return Applications(groups={"a": table}, consumers=consumers or {}, asked=len(groups))


def judged(source: Applications, target: Applications, **more: object) -> list[Finding]:
    selector = GroupSelector.of([".*"], [])
    return [*judge_groups(source, target, {"orders": "orders"}, settings(**more), selector)]


def test_producers() -> None:
    """Those of the source that are at the target already may send there."""
    assert [each.message for each in judge_producers({}, {})] == ["none is connected"]
    here, there = {"pay": frozenset({"10.0.0.1"})}, {"other": frozenset({"10.0.0.2"})}
    (found,) = judge_producers(here, there)
    assert (found.level, found.message) == (Level.OK, "1 groups are connected, none of them to the source: other")
    (found,) = judge_producers(here, there | {"pay": frozenset({"10.0.0.3"})})
    assert found.level is Level.WARNING
    assert "pay (10.0.0.3)" in found.message


def test_consumers_of_copied_topics() -> None:
    """Offsets are never written under them; those of other topics do not matter."""
    target = applications({"g": CONSUMER}, g={})
    (found,) = judge_consumers(target, {"orders"}, settings())
    assert found.level is Level.WARNING
    assert found.message.endswith("g (10.0.0.7); so their offsets are not synced")
    (found,) = judge_consumers(target, {"orders"}, settings(sync="topics"))
    assert not found.message.endswith("synced")
    (found,) = judge_consumers(target, {"payments"}, settings())
    assert found.level is Level.OK


def test_groups_that_can_be_synced() -> None:
    source = applications({"g": CONSUMER}, g={"retryMaxTimes": 16})
    (found,) = judged(source, applications())
    assert (found.level, found.message) == (Level.OK, "all 1 groups of the source can be synced")
    (found,) = judged(source, applications(g={"retryMaxTimes": 16, "onlyIn5": 1}))
    assert found.level is Level.OK


def test_other_settings_at_the_target() -> None:
    source, target = applications(g={"retryMaxTimes": 16}), applications(g={"retryMaxTimes": 3})
    (found,) = judged(source, target)
    assert (found.level, found.subject) == (Level.WARNING, "settings")
    assert found.message.endswith(": g")
    (found,) = judged(source, target, on_drift="repair")
    assert found.level is Level.OK


def test_broadcasting() -> None:
    everywhere = ConsumerClients(frozenset({"10.0.0.7"}), frozenset({"orders"}), "BROADCASTING")
    source = applications({"g": everywhere}, g={})
    (found,) = judged(source, applications())
    assert (found.level, found.subject) == (Level.WARNING, "offsets")
    assert found.message.endswith("in their clients: g")
    (found,) = judged(source, applications(), sync="topics,groups")
    assert found.level is Level.OK
