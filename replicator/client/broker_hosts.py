"""Which hosts the brokers of a cluster may have, whatever its name servers say.

A name server proves nothing: who can answer in its place chooses where requests go, and these are signed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final

from replicator.settings.clusters import as_network

__all__ = ["ANY_HOST", "BrokerHosts"]


@dataclass(frozen=True, slots=True)
class BrokerHosts:
    """Host names, and networks of addresses; if there are neither, every host is allowed."""

    names: frozenset[str] = frozenset()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    @classmethod
    def of(cls, hosts: Iterable[str]) -> BrokerHosts:
        """Of host names, addresses, and networks; raises the errors of `as_network`."""
        read = [(host, as_network(host)) for host in hosts]
        names = frozenset(host.lower() for host, network in read if network is None)
        return cls(names, tuple(network for _, network in read if network is not None))

    def allow(self, address: str) -> bool:
        """Whether a broker may be at `address`, which is `host:port`."""
        if not self.names and not self.networks:
            return True
        host = address.rpartition(":")[0].strip("[]").lower()
        if host in self.names:
            return True
        try:
            ip = ip_address(host)
        except ValueError:
            return False
        return any(ip in network for network in self.networks)


ANY_HOST: Final = BrokerHosts()
