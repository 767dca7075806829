"""What brokers say of themselves, as far as a route depends on it; and what follows. The second half is pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from replicator.client.brokers import read_runtime, read_settings
from replicator.client.endpoint import Endpoint
from replicator.operate.doctor.finding import Finding, bad, good, odd
from replicator.settings import RouteSettings

__all__ = ["Facts", "judge_broker", "judge_pair", "read_facts"]

#: The oldest release that was tried.
_OLDEST: Final = (4, 9, 0)
#: Shares of a disk in use: brokers refuse messages at 0.9 (`diskSpaceWarningLevelRatio`), and delete from 0.75 on.
_FULL: Final = 0.9
_FILLING: Final = 0.75
_DELAYS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_WRITABLE: Final = 2


@dataclass(frozen=True, slots=True)
class Facts:
    """Of one broker: its settings by name, and its runtime information."""

    settings: Mapping[str, str]
    runtime: Mapping[str, str]

    @property
    def version(self) -> tuple[int, ...]:
        """Its release, empty if it does not say."""
        named = self.runtime.get("brokerVersionDesc", "").removeprefix("V").replace("_", ".").split("-")[0]
        parts = named.split(".")
        return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else ()

    @property
    def disk(self) -> float:
        """Share of its disk that is in use."""
        try:
            return float(self.runtime.get("commitLogDiskRatio", "0").split()[-1])
        except (IndexError, ValueError):
            return 0.0

    def number(self, name: str, default: int) -> int:
        """A setting that is a number."""
        value = self.settings.get(name, "")
        return int(value) if value.lstrip("-").isdecimal() else default


async def read_facts(broker: Endpoint) -> Facts:
    """What `broker` says of itself.

    Raises:
        ClientError, ProtocolError: it does not.
    """
    return Facts(await read_settings(broker), await read_runtime(broker))


def judge_broker(side: str, name: str, facts: Facts, route: RouteSettings) -> Iterator[Finding]:
    """What is to be said of one broker of `side`."""
    check = f"{side} broker"
    shown = ".".join(map(str, facts.version)) or "of an unknown version"
    if facts.version and facts.version < _OLDEST:
        yield odd(check, name, f"RocketMQ {shown} is older than all that was tried", "upgrade it to 4.9 or newer")
    else:
        yield good(check, name, f"RocketMQ {shown}")
    yield from _judge_disk(check, name, facts.disk)
    if side == "source" and route.sql and facts.settings.get("enablePropertyFilter") != "true":
        yield bad(check, name, "it does not filter by SQL92", "set enablePropertyFilter=true there, or use --tags")
    if side == "source" and (hours := facts.number("fileReservedTime", 72)) < 24:
        yield odd(
            check,
            name,
            f"it keeps messages for {hours} h: what a route that stands longer has not read is lost",
            "raise fileReservedTime",
        )
    if side == "target" and not facts.number("brokerPermission", 6) & _WRITABLE:
        yield bad(check, name, "it takes no messages (brokerPermission)", "set brokerPermission=6 there")
    if side == "target" and facts.settings.get("autoCreateTopicEnable") == "true":
        yield odd(
            check,
            name,
            "applications that send to a topic before it is copied create it there (autoCreateTopicEnable)",
            "set autoCreateTopicEnable=false there",
        )


def _judge_disk(check: str, name: str, share: float) -> Iterator[Finding]:
    if share >= _FULL:
        yield bad(check, name, f"its disk is {share:.0%} full: it refuses messages", "make room there")
    elif share >= _FILLING:
        yield odd(check, name, f"its disk is {share:.0%} full: it deletes messages early", "make room there")


def judge_pair(source: Mapping[str, Facts], target: Mapping[str, Facts]) -> Iterator[Finding]:
    """What is to be said of both sides together."""
    largest = max((facts.number("maxMessageSize", 2**22) for facts in source.values()), default=0)
    for name, facts in target.items():
        most = facts.number("maxMessageSize", 2**22)
        if most < largest:
            yield odd(
                "target broker",
                name,
                f"it takes messages of {most:,} bytes, and the source of {largest:,}",
                f"set maxMessageSize={largest} there, or choose --on-error skip or dead-letter",
            )
    levels = {facts.settings.get("messageDelayLevel", _DELAYS) for facts in (*source.values(), *target.values())}
    if len(levels) > 1:
        yield odd(
            "both clusters",
            "messageDelayLevel",
            "they differ: applications that delay by level wait for other times after a switch",
            "give all brokers the same messageDelayLevel",
        )
