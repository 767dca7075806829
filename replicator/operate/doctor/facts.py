"""What a broker says of itself, as far as a route depends on it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from replicator.client.brokers import DEFAULT_DELAYS, read_runtime, read_settings
from replicator.client.endpoint import Endpoint
from replicator.protocol.properties import number

__all__ = ["Facts", "read_facts"]

#: Milliseconds of the units in which brokers tell how long they have run; they write thousands with a separator.
_UNITS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}
_AGE: Final = re.compile(r"([^ \[]+) (days|hours|minutes|seconds)")
#: They tell it in whole seconds.
_RESOLUTION: Final = 1000


@dataclass(frozen=True, slots=True)
class Facts:
    """Of one broker: its settings by name, and its runtime information.

    `asked` is when, by this machine's clock, the runtime information was asked for and when it had come (ms).
    """

    settings: Mapping[str, str]
    runtime: Mapping[str, str]
    asked: tuple[int, int] = (0, 0)

    @property
    def version(self) -> tuple[int, ...]:
        """Its release, empty if it does not say."""
        named = self.runtime.get("brokerVersionDesc", "").removeprefix("V").replace("_", ".").split("-")[0]
        parts = [number(part) for part in named.split(".")]
        known = tuple(part for part in parts if part is not None)
        return known if len(known) == len(parts) else ()

    @property
    def disk(self) -> float | None:
        """Share of its disk that is in use, the fullest if there are several; None: it does not say."""
        shares = re.findall(r"(?<![\w./-])\d\.\d+(?![\w./])", self.runtime.get("commitLogDiskRatio", ""))
        return max(map(float, shares), default=None)

    @property
    def skew(self) -> tuple[int, int] | None:
        """Between which two figures it lies how far its clock is ahead of this machine's (ms); None: nobody knows.

        It says when it was started and how long ago that is, both by its own clock.
        """
        begun = number(self.runtime.get("bootTimestamp", ""))
        parts = _AGE.findall(self.runtime.get("runtime", ""))
        if begun is None or len(parts) != len(_UNITS):
            return None
        ran = sum((number("".join(filter(str.isdecimal, count))) or 0) * _UNITS[unit] for count, unit in parts)
        asked, answered = self.asked
        now = begun + ran
        return now - answered, now + _RESOLUTION - asked

    @property
    def access(self) -> str:
        """How it checks accounts: `ACL 1.0`, `ACL 2.0`, `ACL 2.0 without rights`, or empty."""
        if self.flag("aclEnable"):
            return "ACL 1.0"
        if self.flag("authenticationEnabled"):
            return "ACL 2.0" if self.flag("authorizationEnabled") else "ACL 2.0 without rights"
        return ""

    @property
    def delays(self) -> str:
        """Its delay levels."""
        return self.settings.get("messageDelayLevel", DEFAULT_DELAYS)

    def number(self, name: str, default: int) -> int:
        """A setting that is a number, negative or not; `default` where it is none."""
        value = self.settings.get(name, "")
        size = number(value.removeprefix("-"))
        return default if size is None else -size if value.startswith("-") else size

    def flag(self, name: str) -> bool:
        """A setting that is a switch; false where the broker does not have it."""
        return self.settings.get(name) == "true"


async def read_facts(broker: Endpoint) -> Facts:
    """What `broker` says of itself.

    Raises:
        ClientError, ProtocolError: it does not.
    """
    settings = await read_settings(broker)
    asked = time.time_ns() // 1_000_000
    runtime = await read_runtime(broker)
    return Facts(settings, runtime, (asked, time.time_ns() // 1_000_000))
