"""What is said of a broker, by its settings and by what it reports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replicator.operate.doctor.brokers import judge_broker, judge_slave
from replicator.operate.doctor.facts import Facts
from replicator.operate.doctor.finding import Level
from replicator.settings import RouteSettings
from tests.operate.doctor.healthy import HEALTHY, healthy

OK, WARNING, ERROR, NOT_CHECKED = Level.OK, Level.WARNING, Level.ERROR, Level.NOT_CHECKED


def said(side: str, facts: Facts, route: RouteSettings | None = None) -> list[tuple[Level, str]]:
    """What is not well, or all where nothing is."""
    found = [(each.level, each.message) for each in judge_broker(side, "b", facts, route or RouteSettings())]
    return [each for each in found if each[0] is not OK] or found


def test_a_healthy_broker() -> None:
    same = ["RocketMQ 5.3.3", "its clock is within 0.6 s of this machine's", "its disk is 42% full"]
    assert said("source", HEALTHY) == [(OK, message) for message in same]
    assert said("target", HEALTHY) == [(OK, message) for message in [*same, "it takes messages"]]


@pytest.mark.parametrize(
    ("side", "changes", "level", "message"),
    [
        ("target", {"brokerPermission": "4"}, ERROR, "it takes no messages"),
        ("target", {"autoCreateTopicEnable": "true"}, WARNING, "autoCreateTopicEnable"),
        ("source", {"fileReservedTime": "6"}, WARNING, "keeps messages for 6 h"),
        ("source", {"enablePropertyFilter": "false"}, ERROR, "does not filter by SQL92"),
    ],
)
def test_settings(side: str, changes: dict[str, str], level: Level, message: str) -> None:
    """Only the side that it matters to is told."""
    route = RouteSettings(sql="a > 1")
    found = said(side, healthy(**changes), route)
    assert [each for each, _ in found] == [level]
    assert message in found[0][1]
    other = {"source": "target", "target": "source"}[side]
    assert {each for each, _ in said(other, healthy(**changes), route)} == {OK}


@pytest.mark.parametrize(
    ("ratio", "settings", "level"),
    [
        ("0.50", {}, OK),
        ("0.80", {}, WARNING),
        ("0.80", {"diskMaxUsedSpaceRatio": "88"}, OK),
        ("0.86", {"diskMaxUsedSpaceRatio": "88"}, WARNING),
        ("0.92", {}, ERROR),
        ("0.92", {"diskSpaceWarningLevelRatio": "95"}, WARNING),
        ("", {}, NOT_CHECKED),
    ],
)
def test_disks(ratio: str, settings: dict[str, str], level: Level) -> None:
    facts = healthy(**settings)
    facts = replace(facts, runtime={**facts.runtime, "commitLogDiskRatio": ratio})
    assert said("source", facts)[0][0] is level


@pytest.mark.parametrize(
    ("seconds", "level", "message"),
    [
        (0, OK, "its clock is within 0.6 s of this machine's"),
        (5, OK, "its clock is within 5.6 s of this machine's"),
        (-5, OK, "its clock is within 5.4 s of this machine's"),
        (6, WARNING, "its clock is 6 s ahead of this machine's, give or take 0.5 s"),
        (-6, WARNING, "its clock is 6 s behind this machine's, give or take 0.5 s"),
        (7200, WARNING, "its clock is 7,200 s ahead of this machine's, give or take 0.5 s"),
    ],
)
def test_clocks(seconds: int, level: Level, message: str) -> None:
    """What its coarse answer leaves open is not held against it."""
    asked, answered = (moment - seconds * 1000 for moment in HEALTHY.asked)
    found = said("source", replace(HEALTHY, asked=(asked, answered)))
    assert (level, message) in [(each, text.partition(":")[0]) for each, text in found]


def test_what_a_broker_does_not_say_is_not_checked() -> None:
    found = said("source", Facts({}, {}))
    assert [level for level, _ in found] == [NOT_CHECKED] * 3
    assert all("because it does not say" in message for _, message in found)


def test_an_old_release() -> None:
    facts = replace(HEALTHY, runtime={**HEALTHY.runtime, "brokerVersionDesc": "V4_8_0"})
    assert "older than all that was tried" in said("source", facts)[0][1]


def test_slaves() -> None:
    assert judge_slave("b", "1.2.3.4:10911", healthy(slaveReadEnable="true")).level is OK
    found = judge_slave("b", "1.2.3.4:10911", HEALTHY)
    assert (found.level, found.subject) == (WARNING, "b at 1.2.3.4:10911")
    assert "slaveReadEnable=true" in found.advice
