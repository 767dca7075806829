"""What a broker's answers say."""

from __future__ import annotations

import pytest

from replicator.operate.doctor.facts import Facts


@pytest.mark.parametrize(
    ("named", "version"),
    [
        ("V5_3_3", (5, 3, 3)),
        ("V4_9_7", (4, 9, 7)),
        ("V5_5_0-SNAPSHOT", (5, 5, 0)),
        ("", ()),
        ("HIGHER_VERSION", ()),
        ("V5_²_0", ()),
        ("V5_٣_0", ()),
        pytest.param(f"V5_{'9' * 5000}_0", (), id="of many digits"),
        ("V5..3", ()),
    ],
)
def test_versions(named: str, version: tuple[int, ...]) -> None:
    assert Facts({}, {"brokerVersionDesc": named}).version == version


@pytest.mark.parametrize(
    ("told", "share"),
    [
        ("0.42", 0.42),
        ("/store: 0.42", 0.42),
        ("/disk1.2/store:0.42, /disk2:0.87", 0.87),
        ("", None),
        ("unknown", None),
    ],
)
def test_disks(told: str, share: float | None) -> None:
    assert Facts({}, {"commitLogDiskRatio": told}).disk == share


@pytest.mark.parametrize(
    ("ran", "seconds"),
    [
        ("[ 0 days, 0 hours, 2 minutes, 3 seconds ]", 123),
        ("[ 1,100 days, 1 hours, 0 minutes, 0 seconds ]", 1100 * 86_400 + 3600),
        ("[ 1\xa0100 days, 1 hours, 0 minutes, 0 seconds ]", 1100 * 86_400 + 3600),
    ],
)
def test_clocks(ran: str, seconds: int) -> None:
    """Started at 1,000,000 ms by its own clock, and asked between two moments of ours."""
    now = 1_000_000 + seconds * 1000
    facts = Facts({}, {"bootTimestamp": "1000000", "runtime": ran}, (now - 20, now + 30))
    assert facts.skew == (-30, 1020)


@pytest.mark.parametrize("runtime", [{}, {"bootTimestamp": "1"}, {"bootTimestamp": "x", "runtime": "[ 0 days ]"}])
def test_unknown_clocks(runtime: dict[str, str]) -> None:
    assert Facts({}, runtime).skew is None


@pytest.mark.parametrize(
    ("settings", "access"),
    [
        ({}, ""),
        ({"aclEnable": "true"}, "ACL 1.0"),
        ({"authenticationEnabled": "true", "authorizationEnabled": "true"}, "ACL 2.0"),
        ({"authenticationEnabled": "true"}, "ACL 2.0 without rights"),
    ],
)
def test_access(settings: dict[str, str], access: str) -> None:
    assert Facts(settings, {}).access == access


@pytest.mark.parametrize(
    ("told", "size"),
    [("4194304", 4194304), ("-1", -1), ("", 7), ("-", 7), ("--1", 7), ("4m", 7), ("٣", 7), ("9" * 5000, 7)],
)
def test_settings_that_are_numbers(told: str, size: int) -> None:
    """Python itself refuses to read thousands of digits."""
    assert Facts({"maxMessageSize": told}, {}).number("maxMessageSize", 7) == size


def test_a_start_that_no_clock_tells() -> None:
    ran = "[ 0 days, 0 hours, 0 minutes, 1 seconds ]"
    assert Facts({}, {"bootTimestamp": "9" * 5000, "runtime": ran}, (0, 0)).skew is None
    long = f"[ {'9' * 5000} days, 0 hours, 0 minutes, 1 seconds ]"
    assert Facts({}, {"bootTimestamp": "1000", "runtime": long}, (2000, 2000)).skew is not None
