"""What is to be said of one broker, by its own settings and by what it reports. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from replicator.operate.doctor.facts import Facts
from replicator.operate.doctor.finding import Finding, bad, good, odd, unchecked
from replicator.settings import RouteSettings

__all__ = ["judge_broker", "judge_slave"]

#: The oldest release that was tried.
_OLDEST: Final = (4, 9, 0)
#: Percent of a disk in use, where a broker does not say: it refuses messages at the first, and deletes from the
#: other two on, whatever the retention (`MessageStoreConfig`).
_REFUSES: Final = 90
_CLEANS: Final = 85
_DELETES: Final = 75
#: Milliseconds by which clocks may differ: lags are shown in seconds, and `start_from` is rarely meant closer.
_APART: Final = 5000
_WRITABLE: Final = 2
#: Hours of messages that a source should have, for a night and a day on which nobody looks.
_RETENTION: Final = 24
_SYNCHRONISE: Final = (
    "synchronise the clocks: `timedatectl set-ntp true` there and here; `chronyc tracking` shows them"
)


def judge_broker(side: str, name: str, facts: Facts, route: RouteSettings) -> Iterator[Finding]:
    """Of the master `name` of `side`, `source` or `target`."""
    check = f"{side} broker"
    yield _version(check, name, facts)
    yield _clock(check, name, facts)
    yield _disk(check, name, facts)
    if side == "source":
        yield from _as_source(check, name, facts, route)
    else:
        yield from _as_target(check, name, facts)


def _version(check: str, name: str, facts: Facts) -> Finding:
    shown = ".".join(map(str, facts.version))
    if not facts.version:
        return unchecked(check, name, "its version, because it does not say which it is")
    if facts.version < _OLDEST:
        return odd(check, name, f"RocketMQ {shown} is older than all that was tried", "upgrade it to 4.9 or newer")
    return good(check, name, f"RocketMQ {shown}")


def _clock(check: str, name: str, facts: Facts) -> Finding:
    if facts.skew is None:
        return unchecked(check, name, "its clock, because it does not say how long it has run")
    low, high = facts.skew
    if low <= _APART and high >= -_APART:
        return good(check, name, f"its clock is within {max(abs(low), abs(high)) / 1000:.1f} s of this machine's")
    middle, around = (low + high) / 2000, (high - low) / 2000
    where = "ahead of" if middle > 0 else "behind"
    return odd(
        check,
        name,
        f"its clock is {abs(middle):,.0f} s {where} this machine's, give or take {around:.1f} s:"
        " lags in seconds, and where start_from begins, are wrong by that",
        _SYNCHRONISE,
    )


def _disk(check: str, name: str, facts: Facts) -> Finding:
    if (share := facts.disk) is None:
        return unchecked(check, name, "its disk, because it does not say how full it is")
    if share * 100 >= facts.number("diskSpaceWarningLevelRatio", _REFUSES):
        return bad(check, name, f"its disk is {share:.0%} full: it refuses messages", "make room there")
    cleans = facts.number("diskSpaceCleanForciblyRatio", _CLEANS)
    if share * 100 >= min(cleans, facts.number("diskMaxUsedSpaceRatio", _DELETES)):
        message = f"its disk is {share:.0%} full: it deletes messages before fileReservedTime is over"
        return odd(check, name, message, "make room there, or lower fileReservedTime")
    return good(check, name, f"its disk is {share:.0%} full")


def _as_source(check: str, name: str, facts: Facts, route: RouteSettings) -> Iterator[Finding]:
    if route.sql:
        if not facts.flag("enablePropertyFilter"):
            message = "it does not filter by SQL92 (enablePropertyFilter)"
            yield bad(check, name, message, "set enablePropertyFilter=true there, or use --tags")
        else:
            yield good(check, name, "it filters by SQL92")
    if (hours := facts.number("fileReservedTime", 72)) < _RETENTION:
        yield odd(
            check,
            name,
            f"it keeps messages for {hours} h: what a route that stands longer has not read is lost",
            "raise fileReservedTime",
        )


def _as_target(check: str, name: str, facts: Facts) -> Iterator[Finding]:
    if facts.number("brokerPermission", 6) & _WRITABLE:
        yield good(check, name, "it takes messages")
    else:
        yield bad(check, name, "it takes no messages (brokerPermission)", "set brokerPermission=6 there")
    if facts.flag("autoCreateTopicEnable"):
        yield odd(
            check,
            name,
            "applications that send to a topic before it is copied create it there (autoCreateTopicEnable)",
            "set autoCreateTopicEnable=false there",
        )


def judge_slave(name: str, address: str, facts: Facts) -> Finding:
    """Of a slave of the source broker `name`, which is read while its master is away."""
    check, subject = "source slave", f"{name} at {address}"
    if facts.flag("slaveReadEnable"):
        return good(check, subject, "it is read while its master is away")
    return odd(
        check,
        subject,
        "it gives no messages (slaveReadEnable): the route waits while its master is away",
        "set slaveReadEnable=true there, and restart it",
    )
