"""Which faults come when: a seed gives the same list each time."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["BROKERS", "KINDS", "VERSIONS", "WORKERS", "Fault", "Plan", "plan"]

WORKERS: Final = 3
#: Of each cluster.
BROKERS: Final = 2
#: Source and target. 4.9.7 has no proxies in front of it (tests/support/proxy.py), so no faults of links.
VERSIONS: Final = (("4.9.7", "5.5.0"), ("5.3.3", "5.5.0"), ("5.5.0", "5.3.3"), ("5.3.3", "5.3.3"))

#: Kinds of faults: what they strike, and how many seconds they last, least and most.
KINDS: Final[Mapping[str, tuple[str, float, float]]] = {
    "kill": ("worker", 0.5, 12),
    "wipe": ("worker", 0.5, 12),
    "stop": ("worker", 0.5, 8),
    "pause": ("worker", 0.5, 12),
    "broker-kill": ("broker", 0.5, 8),
    "broker-stop": ("broker", 0.5, 8),
    "broker-pause": ("broker", 0.3, 8),
    "older-store": ("target broker", 0, 0),
    "swap-addresses": ("target", 0, 0),
    "nameserver-kill": ("cluster", 0.5, 10),
    "nameserver-pause": ("cluster", 0.5, 10),
    "delay": ("link", 2, 10),
    "reset": ("link", 0, 0),
    "refuse": ("link", 1, 8),
    "one-way": ("link", 1, 8),
    "queues-grow": ("topic", 0, 0),
    "pause-route": ("rest", 1, 5),
    "restart-route": ("rest", 0, 0),
    "rates": ("rest", 1, 8),
}
#: Faults that start new Java processes or lose a store, which take long: each at most so often in a round.
_RARE: Final = {"older-store": 1, "swap-addresses": 1, "queues-grow": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault: `at` seconds after the round's beginning, for `seconds`.

    `side` is "source" or "target", and `number` a worker's or a broker's; what the kind does not strike is unused.
    """

    at: float
    kind: str
    side: str
    number: int
    seconds: float

    def __str__(self) -> str:
        what, _, most = KINDS[self.kind]
        where = {"worker": f"worker {self.number}", "topic": "", "rest": ""}.get(what, f"{self.side} {self.number}")
        return " ".join(filter(None, (f"{self.kind}", where, f"for {self.seconds:.1f} s" if most else "")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A round: versions of source and target, and faults in their order."""

    versions: tuple[str, str]
    faults: Sequence[Fault]


def plan(seed: str, seconds: float) -> Plan:
    """The round of `seed`, whose faults begin within `seconds`."""
    chance = random.Random(seed)
    versions = chance.choice(VERSIONS)
    faults: list[Fault] = []
    at = 1.0
    while at < seconds:
        kind = chance.choice(list(KINDS))
        what, least, most = KINDS[kind]
        side = chance.choice(("source", "target"))
        if "target" in what:
            side = "target"
        number = chance.randrange(WORKERS if what == "worker" else BROKERS)
        fault = Fault(at=at, kind=kind, side=side, number=number, seconds=chance.uniform(least, most))
        often = sum(each.kind == kind for each in faults)
        linked = what != "link" or not versions[side == "target"].startswith("4.")
        if often < _RARE.get(kind, len(KINDS)) and linked:
            faults.append(fault)
        at += chance.expovariate(1 / 4)
    return Plan(versions=versions, faults=faults)
