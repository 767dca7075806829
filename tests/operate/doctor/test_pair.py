"""What is said of both clusters together."""

from __future__ import annotations

import pytest

from replicator.operate.doctor.facts import Facts
from replicator.operate.doctor.finding import Finding, Level
from replicator.operate.doctor.pair import judge_access, judge_names, judge_pair
from replicator.settings import ClusterSettings, RouteSettings
from tests.operate.doctor.healthy import HEALTHY, healthy


def odd(source: Facts, target: Facts, **route: object) -> list[Finding]:
    found = judge_pair({"a": source}, {"b": target}, RouteSettings(**route))
    return [each for each in found if each.level is not Level.OK]


def cluster(**settings: object) -> ClusterSettings:
    return ClusterSettings(namesrv=["a:1"], **settings)


def test_healthy_pairs() -> None:
    """A target that takes more is as good; a timer that the source does not have is not missed."""
    assert odd(HEALTHY, HEALTHY) == []
    assert odd(HEALTHY, healthy(maxMessageSize="8388608", timerMaxDelaySec="999999")) == []
    assert odd(healthy(timerWheelEnable="false"), healthy(timerWheelEnable="false")) == []


@pytest.mark.parametrize(
    ("target", "subject", "advice"),
    [
        ({"maxMessageSize": "1000"}, "b", "maxMessageSize=4194304"),
        ({"messageDelayLevel": "1s 2s"}, "messageDelayLevel", "the same messageDelayLevel"),
        ({"timerWheelEnable": "false"}, "timerWheelEnable", "timerWheelEnable=true"),
        ({"timerMaxDelaySec": "60"}, "timerWheelEnable", "timerMaxDelaySec"),
    ],
)
def test_targets_that_do_less(target: dict[str, str], subject: str, advice: str) -> None:
    (found,) = odd(HEALTHY, healthy(**target))
    assert (found.level, found.subject) == (Level.WARNING, subject)
    assert advice in found.advice
    if subject != "messageDelayLevel":
        assert odd(healthy(**target), HEALTHY) == []


def test_a_target_that_checks_no_accounts() -> None:
    (found,) = odd(healthy(aclEnable="true"), HEALTHY)
    assert found.advice.endswith(": --sync topics,groups,offsets,pending,acl")
    (found,) = odd(healthy(aclEnable="true"), HEALTHY, sync=["acl"])
    assert "--sync" not in found.advice
    assert odd(HEALTHY, healthy(aclEnable="true")) == []


def test_names() -> None:
    """Two of the same name need ids, both of them."""
    assert judge_names("east", "west", (cluster(), cluster())).message == "east and west"
    for ids in ({}, {"id": "x"}):
        found = judge_names("Default", "Default", (cluster(**ids), cluster()))
        assert found.level is Level.WARNING
        assert "--source-id Default-1 --target-id Default-2" in found.advice
    assert judge_names("Default", "Default", (cluster(id="x"), cluster(id="y"))).level is Level.OK


def test_how_clients_are_let_in() -> None:
    guarded = healthy(aclEnable="true")
    found = [*judge_access("source", cluster(tls={"mode": "required"}), {"a": guarded, "b": guarded})]
    assert [each.message for each in found] == [
        "checked by ACL 1.0",
        "connections are encrypted, and certificates are not checked",
    ]
    (accounts, _) = judge_access("source", cluster(), {"a": guarded, "b": HEALTHY})
    assert accounts.level is Level.WARNING
    assert "(a: ACL 1.0, b: none)" in accounts.message
