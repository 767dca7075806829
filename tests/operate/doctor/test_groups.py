"""What is said of consumer groups and producers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replicator.client.app_clients import ConsumerClients
from replicator.client.groups import GroupTable
from replicator.errors import BrokerRefused
from replicator.metadata.groups import GroupSelector
from replicator.operate.doctor import groups
from replicator.operate.doctor.finding import Finding, Level
from replicator.operate.doctor.groups import (
    Applications,
    judge_consumers,
    judge_groups,
    judge_named,
    judge_producers,
)
from replicator.settings import Settings, load

CONSUMER = ConsumerClients(frozenset({"10.0.0.7"}), frozenset({"orders", "%RETRY%g"}), "CLUSTERING")


def settings(**more: object) -> Settings:
    return load({"source": {"namesrv": "a:1"}, "target": {"namesrv": "b:1"}} | more, file=None)


def applications(consumers: dict[str, ConsumerClients] | None = None, **groups: dict[str, Any]) -> Applications:
    table = GroupTable({name: {"groupName": name, **config} for name, config in groups.items()}, {}, ())
    return Applications(groups={"a": table}, consumers=consumers or {}, asked=len(groups))


def producers(**hosts: str) -> Applications:
    return Applications(producers={group: frozenset({host}) for group, host in hosts.items()})


def judged(source: Applications, target: Applications, **more: object) -> list[Finding]:
    selector = GroupSelector.of([".*"], [])
    return [*judge_groups(source, target, {"orders": "orders"}, settings(**more), selector)]


def test_producers() -> None:
    """Those of the source that are at the target already may send there."""
    assert [each.message for each in judge_producers(producers(), producers())] == ["none is connected"]
    here, there = producers(pay="10.0.0.1"), producers(other="10.0.0.2")
    (found,) = judge_producers(here, there)
    assert (found.level, found.message) == (
        Level.OK,
        "1 group is connected, none of them to the source: other (10.0.0.2)",
    )
    (found,) = judge_producers(here, producers(other="10.0.0.2", pay="10.0.0.3"))
    assert found.level is Level.WARNING
    assert "pay (10.0.0.3)" in found.message


def test_brokers_that_do_not_answer_say_nothing_good() -> None:
    """Of some that do is said what they say, and of none nothing: why is a line of its own."""
    mute: dict[str, Any] = {"brokers": 2, "silent": 2, "silent_on_producers": 2}
    half: dict[str, Any] = {"brokers": 2, "silent": 1, "silent_on_producers": 1}
    table = {"a": GroupTable({"g": {"groupName": "g"}}, {}, ())}
    connected = {"other": frozenset({"10.0.0.2"})}
    there = Applications(producers=connected)
    assert [*judge_producers(Applications(), Applications(**mute))] == []
    assert [*judge_producers(Applications(**mute), there)] == []
    assert [*judge_consumers(Applications(**mute), {"orders"}, settings())] == []
    assert judged(Applications(**mute), Applications()) == judged(Applications(), Applications(**mute)) == []
    told = [
        *judge_producers(Applications(), Applications(**half)),
        *judge_producers(Applications(**half), there),
        *judge_producers(Applications(), Applications(producers=connected, **half)),
        *judge_consumers(Applications(asked=3, **half), {"orders"}, settings()),
        *judged(Applications(groups=table, **half), Applications()),
        *judged(Applications(groups=table), Applications(**half)),
    ]
    assert len(told) == 6
    for each in told:
        assert (each.level, each.message.endswith(", by the brokers that answered")) == (Level.OK, True)


async def test_who_did_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker may tell of its groups, and not of who is connected."""
    denied = BrokerRefused("a:1", 203, 16, "no right")
    answers: dict[str, dict[str, Any]] = {
        "a": {"groups": denied},
        "b": {"groups": GroupTable({"g": {}}, {}, ()), "clients": denied},
        "c": {"groups": GroupTable({"g": {}}, {}, ()), "clients": None, "producers": denied},
        "d": {"groups": GroupTable({"g": {}}, {}, ()), "clients": CONSUMER, "producers": {}},
    }

    def answer(kind: str) -> Any:
        async def read(broker: str, *_: str) -> Any:
            if isinstance(told := answers[broker][kind], Exception):
                raise told
            return told

        return read

    for name, kind in (("groups", "groups"), ("consumer_clients", "clients"), ("producers", "producers")):
        monkeypatch.setattr(groups, f"read_{name}", answer(kind))
    client = SimpleNamespace(reader=lambda name: name, is_proxy=False)
    cluster: Any = SimpleNamespace(topics=answers, cluster=client)
    found = await groups._applications("target", cluster, GroupSelector.of([".*"], []))
    assert (found.brokers, found.silent, found.silent_on_producers, found.asked) == (4, 2, 3, 2)
    assert {each.level for each in found.findings} == {Level.NOT_CHECKED}


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


def test_groups_that_are_named_have_to_be_at_the_target() -> None:
    """Where offsets are synced without them, as through a Proxy."""
    target = applications(mine={}, odd={})
    target.groups["b"] = GroupTable({"mine": {"groupName": "mine"}}, {}, ())
    first, second = judge_named(target, ["mine", "odd"])
    assert (first.level, first.message) == (Level.OK, "the target takes its offsets")
    assert second.level is Level.WARNING
    assert "refuse its offsets: b" in second.message
    assert [*judge_named(Applications(), ["mine"])] == []
