"""Which faults come when: a seed gives the same list each time."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.support.stores import ROCKSDB

__all__ = ["KINDS", "WORKERS", "WORLDS", "Fault", "Plan", "Setting", "plan"]

WORKERS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a round is played on: `versions` are pairs of source and target, `brokers` of each cluster.

    With `acl` both sides check accounts, which are synced. Where it is `signed` the group has a secret. At the
    `elected` side each broker has two replicas, of which a controller elects the master. `properties` are of all
    brokers.
    """

    versions: Sequence[tuple[str, str]]
    brokers: int = 2
    acl: bool = False
    signed: bool = True
    elected: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)

    def has(self, kind: str, side: str, version: str) -> bool:
        """Whether a fault can come, at a side of that version.

        There are no proxies in front of brokers of 4.9.7 (tests/support/proxy.py), nor between replicas. A slave
        learns of topics every ten seconds only, so an election may undo what was done to them. The name server of
        an elected source is left alone: it has the controller, without which a master that comes back from a pause,
        and was replaced meanwhile, shrinks its set of replicas to itself and acknowledges messages that the cluster
        then loses (seen with 5.5.0, in spite of `allAckInSyncStateSet`).
        """
        if kind in ("account", "elect"):
            return self.acl if kind == "account" else self.elected == side
        if kind in ("queues-grow", "topic-recreated", "broker-disk-full"):
            return self.elected == ""
        if KINDS[kind][0] == "link":
            return not (version.startswith("4.") or self.elected == side)
        if kind == "swap-addresses":
            return self.brokers > 1
        if kind.startswith("nameserver-"):
            return not self.elected == side == "source"
        return self.elected != side or kind != "older-store"


_PLAIN: Final = (("4.9.7", "5.5.0"), ("5.3.3", "5.5.0"), ("5.5.0", "5.3.3"), ("5.3.3", "5.3.3"))
WORLDS: Final[Mapping[str, Setting]] = {
    "plain": Setting(versions=_PLAIN),
    "acl": Setting(versions=(("4.9.7", "5.5.0"), ("5.3.3", "5.5.0"), ("4.9.7", "4.9.7")), acl=True),
    "rocksdb": Setting(versions=(("5.3.3", "5.5.0"), ("5.5.0", "5.3.3")), signed=False, properties=ROCKSDB),
    "elected source": Setting(versions=(("5.3.3", "5.5.0"), ("5.5.0", "5.3.3")), brokers=1, elected="source"),
    "elected target": Setting(versions=(("4.9.7", "5.3.3"), ("5.3.3", "5.5.0")), brokers=1, elected="target"),
}

#: Kinds of faults: what they strike, and how many seconds they last, least and most.
KINDS: Final[Mapping[str, tuple[str, float, float]]] = {
    "kill": ("worker", 0.5, 12),
    "wipe": ("worker", 0.5, 12),
    "stop": ("worker", 0.5, 8),
    "pause": ("worker", 0.5, 25),
    "clock": ("worker", 1, 10),
    "disk-full": ("worker", 0.5, 8),
    "broker-kill": ("broker", 0.5, 8),
    "broker-stop": ("broker", 0.5, 8),
    "broker-pause": ("broker", 0.3, 20),
    "broker-disk-full": ("broker", 1, 10),
    "elect": ("broker", 3, 12),
    "older-store": ("target broker", 0, 0),
    "swap-addresses": ("target", 0, 0),
    "nameserver-kill": ("cluster", 0.5, 10),
    "nameserver-pause": ("cluster", 0.5, 10),
    "delay": ("link", 2, 10),
    "reset": ("link", 0, 0),
    "refuse": ("link", 1, 8),
    "one-way": ("link", 1, 8),
    "partition": ("link", 1, 10),
    "isolated": ("link", 1, 20),
    "narrow": ("link", 2, 10),
    "queues-grow": ("topic", 0, 0),
    "topic-recreated": ("brief topic", 0, 6),
    "account": ("account", 0, 0),
    "pause-route": ("rest", 1, 5),
    "restart-route": ("rest", 0, 0),
    "stop-route": ("rest", 1, 5),
    "granularity": ("rest", 1, 8),
    "rates": ("rest", 1, 8),
}
#: Faults that start new Java processes or lose a store, which take long: each at most so often in a round.
_RARE: Final = {"older-store": 1, "swap-addresses": 1, "queues-grow": 2, "topic-recreated": 2}


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
        number = f"{self.number}"
        where = {"worker": f"worker {number}", "topic": number, "account": number}
        place = "" if what in ("rest", "brief topic") else where.get(what, f"{self.side} {number}")
        return " ".join(filter(None, (f"{self.kind}", place, f"for {self.seconds:.1f} s" if most else "")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A round: its world by name, versions of source and target, and faults in their order."""

    world: str
    versions: tuple[str, str]
    faults: Sequence[Fault]


def plan(seed: str, seconds: float) -> Plan:
    """The round of `seed`, whose faults begin within `seconds`."""
    chance = random.Random(seed)
    name = chance.choice(list(WORLDS))
    world = WORLDS[name]
    versions = chance.choice(world.versions)
    faults: list[Fault] = []
    at = 1.0
    while at < seconds:
        kind = chance.choice(list(KINDS))
        what, least, most = KINDS[kind]
        side = chance.choice(("source", "target"))
        if "target" in what:
            side = "target"
        number = chance.randrange(WORKERS if what == "worker" else world.brokers)
        fault = Fault(at=at, kind=kind, side=side, number=number, seconds=chance.uniform(least, most))
        often = sum(each.kind == kind for each in faults)
        if often < _RARE.get(kind, len(KINDS)) and world.has(kind, side, versions[side == "target"]):
            faults.append(fault)
        at += chance.expovariate(1 / 4)
    return Plan(world=name, versions=versions, faults=faults)
