"""What is to be said of both clusters together. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from replicator.client.brokers import DEFAULT_MAX_MESSAGE
from replicator.operate.doctor.facts import Facts
from replicator.operate.doctor.finding import Finding, good, odd
from replicator.settings import ClusterSettings, RouteSettings

__all__ = ["TLS_WORDS", "judge_access", "judge_names", "judge_pair"]

_BOTH = "both clusters"
_NO_ACCOUNTS = "none"
TLS_WORDS = {
    "off": "connections are not encrypted",
    "required": "connections are encrypted, and certificates are not checked",
    "verify": "connections are encrypted, and certificates are checked",
}


def judge_pair(source: Mapping[str, Facts], target: Mapping[str, Facts], route: RouteSettings) -> Iterator[Finding]:
    """Of the settings of their brokers, by the brokers' names: one of each side at least."""
    yield from _sizes(source, target)
    yield _delays(source, target)
    yield from _timers(source, target)
    if any(each.access for each in source.values()) and not any(each.access for each in target.values()):
        yield odd(
            _BOTH,
            "accounts",
            "the source checks accounts and the target does not: whoever reaches that one may read the copies",
            "switch its access control on; docs/ACL.md brings the accounts over"
            + ("" if "acl" in route.sync else ": --sync topics,groups,offsets,pending,acl"),
        )


def _sizes(source: Mapping[str, Facts], target: Mapping[str, Facts]) -> Iterator[Finding]:
    most_of = {name: facts.number("maxMessageSize", DEFAULT_MAX_MESSAGE) for name, facts in target.items()}
    largest = max(facts.number("maxMessageSize", DEFAULT_MAX_MESSAGE) for facts in source.values())
    small = {name: most for name, most in most_of.items() if most < largest}
    for name, most in small.items():
        yield odd(
            "target broker",
            name,
            f"it takes messages of up to {most:,} bytes, and the source of up to {largest:,} (maxMessageSize)",
            f"set maxMessageSize={largest} there, or choose --on-error skip or dead-letter",
        )
    if not small:
        yield good(_BOTH, "maxMessageSize", f"the target takes all that the source takes, up to {largest:,} bytes")


def _delays(source: Mapping[str, Facts], target: Mapping[str, Facts]) -> Finding:
    if len({facts.delays for facts in (*source.values(), *target.values())}) == 1:
        return good(_BOTH, "messageDelayLevel", "they have the same delay levels")
    return odd(
        _BOTH,
        "messageDelayLevel",
        "they differ: applications that delay by level wait for other times after a switch",
        "give all brokers the same messageDelayLevel",
    )


def _timers(source: Mapping[str, Facts], target: Mapping[str, Facts]) -> Iterator[Finding]:
    """Applications that choose a time themselves, which 5.x lets them."""
    longest = min((_longest_timer(facts) for facts in source.values()), default=0)
    lacking = [name for name, facts in target.items() if _longest_timer(facts) < longest]
    if lacking:
        yield odd(
            _BOTH,
            "timerWheelEnable",
            f"the source delays messages to any time within {longest:,} s, and {', '.join(lacking)} does not:"
            " applications that do so cannot switch",
            "use 5.x at the target, with timerWheelEnable=true and the same timerMaxDelaySec",
        )
    elif longest:
        yield good(_BOTH, "timerWheelEnable", "the target delays messages to any time that the source takes")


def _longest_timer(facts: Facts) -> int:
    """Seconds; 0: it has no timer."""
    return facts.number("timerMaxDelaySec", 3 * 86400) if facts.flag("timerWheelEnable") else 0


def judge_names(source: str, target: str, settings: tuple[ClusterSettings, ClusterSettings]) -> Finding:
    """Of the clusters' own names, from which their ids are made."""
    ours, theirs = settings
    if source != target or (ours.id and theirs.id):
        return good(_BOTH, "ids", f"{ours.id or source} and {theirs.id or target}")
    return odd(
        _BOTH,
        "ids",
        f"both are called {source}: their ids have the address of a name server in them, and change with it",
        f"give them permanent ids before the first start, as in --source-id {source}-1 --target-id {source}-2",
    )


def judge_access(side: str, settings: ClusterSettings, facts: Mapping[str, Facts]) -> Iterator[Finding]:
    """Of how the brokers of `side` let clients in, and how we come to them."""
    kinds = {name: each.access for name, each in facts.items()}
    check, tls = f"{side} cluster", TLS_WORDS[settings.tls.mode]
    if len({*kinds.values()}) > 1:
        shown = ", ".join(f"{name}: {kind or _NO_ACCOUNTS}" for name, kind in sorted(kinds.items()))
        yield odd(check, "accounts", f"its brokers check them differently ({shown})", "configure them alike")
    else:
        kind = next(iter(kinds.values()), "")
        yield good(
            check, "accounts", f"checked by {kind}" if kind else "none are asked for: whoever reaches it may use it"
        )
    yield good(check, "TLS", tls)
