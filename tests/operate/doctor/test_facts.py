"""What is said of a broker, by its settings and by what it reports."""

from __future__ import annotations

import pytest

from replicator.operate.doctor.facts import Facts, judge_broker, judge_pair
from replicator.operate.doctor.finding import Level
from replicator.settings import RouteSettings

HEALTHY = Facts(
    {
        "maxMessageSize": "4194304",
        "brokerPermission": "6",
        "fileReservedTime": "72",
        "enablePropertyFilter": "true",
    },
    {"brokerVersionDesc": "V5_3_3", "commitLogDiskRatio": "/store: 0.42"},
)


def said(side: str, route: RouteSettings | None = None, **changes: str) -> list[tuple[Level, str]]:
    """Of a broker like `HEALTHY` but for some settings."""
    facts = Facts({**HEALTHY.settings, **changes}, HEALTHY.runtime)
    return [(found.level, found.message) for found in judge_broker(side, "b", facts, route or RouteSettings())]


@pytest.mark.parametrize(
    ("named", "version"),
    [
        ("V5_3_3", (5, 3, 3)),
        ("V4_9_7", (4, 9, 7)),
        ("V5_5_0-SNAPSHOT", (5, 5, 0)),
        ("", ()),
        ("HIGHER_VERSION", ()),
    ],
)
def test_versions(named: str, version: tuple[int, ...]) -> None:
    assert Facts({}, {"brokerVersionDesc": named}).version == version


def test_a_healthy_broker() -> None:
    assert said("source") == said("target") == [(Level.OK, "RocketMQ 5.3.3")]
    assert not [*judge_pair({"a": HEALTHY}, {"b": HEALTHY})]


@pytest.mark.parametrize(
    ("side", "changes", "level", "message"),
    [
        ("target", {"brokerPermission": "4"}, Level.ERROR, "it takes no messages"),
        ("target", {"autoCreateTopicEnable": "true"}, Level.WARNING, "autoCreateTopicEnable"),
        ("source", {"fileReservedTime": "6"}, Level.WARNING, "keeps messages for 6 h"),
        ("source", {"enablePropertyFilter": "false"}, Level.ERROR, "does not filter by SQL92"),
    ],
)
def test_settings(side: str, changes: dict[str, str], level: Level, message: str) -> None:
    """Only the side that it matters to is told."""
    route = RouteSettings(sql="a > 1")
    found = said(side, route, **changes)[1:]
    assert [each for each, _ in found] == [level]
    assert message in found[0][1]
    other = {"source": "target", "target": "source"}[side]
    assert not said(other, route, **changes)[1:]


@pytest.mark.parametrize(
    ("ratio", "levels"),
    [("0.5", []), ("0.8", [Level.WARNING]), ("0.95", [Level.ERROR]), ("", []), ("unknown", [])],
)
def test_disks(ratio: str, levels: list[Level]) -> None:
    facts = Facts(HEALTHY.settings, {**HEALTHY.runtime, "commitLogDiskRatio": ratio})
    assert [each.level for each in judge_broker("source", "b", facts, RouteSettings())][1:] == levels


def test_an_old_release() -> None:
    facts = Facts(HEALTHY.settings, {"brokerVersionDesc": "V4_8_0"})
    first = next(judge_broker("source", "b", facts, RouteSettings()))
    assert "older than all that was tried" in first.message


def test_both_sides() -> None:
    """What the target cannot take, and delay levels that differ."""
    small = Facts({**HEALTHY.settings, "maxMessageSize": "1000", "messageDelayLevel": "1s 2s"}, HEALTHY.runtime)
    found = [*judge_pair({"a": HEALTHY}, {"b": small})]
    assert [(each.level, each.subject) for each in found] == [
        (Level.WARNING, "b"),
        (Level.WARNING, "messageDelayLevel"),
    ]
    assert "maxMessageSize=4194304" in found[0].advice
    assert not [*judge_pair({"a": small}, {"b": small})]
