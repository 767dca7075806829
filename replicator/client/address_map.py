"""Where brokers are reached from here, when it is not where they say they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["AS_ADVERTISED", "AddressMap"]


@dataclass(frozen=True, slots=True)
class AddressMap:
    """Advertised hosts, or hosts with ports, and what to connect to instead; the port stays where none is given."""

    entries: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[str]) -> AddressMap:
        """Of `ADVERTISED=REACHABLE` each; both with a port or both without one."""
        return cls(dict(entry.split("=", 1) for entry in entries))

    def reach(self, address: str) -> str:
        """Where `address`, which is `host:port`, is reached; an entry with its port comes first."""
        if (exact := self.entries.get(address)) is not None:
            return exact
        host, _, port = address.rpartition(":")
        return f"{self.entries.get(host, host)}:{port}"


AS_ADVERTISED: Final = AddressMap()
