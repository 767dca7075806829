"""The specification of a sandbox cluster: version, size, access control, TLS, addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from replicator.errors import ConfigError

__all__ = ["ACL_VERSIONS", "HA_VERSIONS", "PROXY_VERSIONS", "VERSIONS", "ClusterSpec"]

VERSIONS = ("4.9.7", "5.1.4", "5.3.3", "5.5.0")

#: Kinds of access control, and the versions that have them.
ACL_VERSIONS = {"none": VERSIONS, "1.0": ("4.9.7", "5.1.4"), "2.0": ("5.3.3", "5.5.0")}
#: Kinds of high availability, and the versions that have them.
HA_VERSIONS = {"none": VERSIONS, "controller": ("5.3.3", "5.5.0")}
#: Versions that have a Proxy, for gRPC clients.
PROXY_VERSIONS = ("5.3.3", "5.5.0")
_MOST_BROKERS = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """One cluster. Masters are named `<name>-a`, `<name>-b` …; `properties` override every broker.conf line.

    With a `broker_ip` such as 127.0.0.2 the brokers still listen on 127.0.0.1 only, but every route
    names `broker_ip`: all connections pass through a proxy that listens there, on the same ports.

    With `proxy` a Proxy serves gRPC clients, and remoting clients on a port of its own.

    With `slaves` each master has a slave. With `ha="controller"` each broker has two replicas, and a controller in
    the first name server elects their master; what it acknowledges is on all replicas that are in sync.

    With `tls` only TLS is served. `tls_permissive` is the brokers' default: TLS for clients that request it,
    with a certificate that each process generates at its start, which costs as much CPU as the rest of the
    start. With neither, TLS is refused.
    """

    name: str
    version: str = "5.3.3"
    name_servers: int = 1
    brokers: int = 1
    slaves: bool = False
    ha: str = "none"
    acl: str = "none"
    tls: bool = False
    tls_client_auth: bool = False
    tls_permissive: bool = False
    proxy: bool = False
    broker_ip: str = "127.0.0.1"
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "properties", MappingProxyType(dict(self.properties)))
        if not self.name or not self.name.replace("-", "").replace("_", "").isalnum():
            raise ConfigError(
                f"name {self.name!r} is not a valid cluster name", hint="use letters, digits, '-' and '_'"
            )
        if self.version not in VERSIONS:
            raise ConfigError(
                f"version {self.version!r} is not in the sandbox", hint=f"use one of {', '.join(VERSIONS)}"
            )
        if not 1 <= self.brokers <= _MOST_BROKERS:
            raise ConfigError(f"brokers {self.brokers} is not between 1 and {_MOST_BROKERS}")
        if self.name_servers < 1:
            raise ConfigError(f"name_servers {self.name_servers} is less than 1")
        if self.acl not in ACL_VERSIONS:
            raise ConfigError(f"acl {self.acl!r} is unknown", hint=f"use one of {', '.join(ACL_VERSIONS)}")
        if self.version not in ACL_VERSIONS[self.acl]:
            raise ConfigError(
                f"RocketMQ {self.version} has no ACL {self.acl}",
                hint=f"ACL {self.acl} works with {' and '.join(ACL_VERSIONS[self.acl])}",
            )
        self._refuse_wrong_ha()
        self._refuse_wrong_proxy()
        if self.tls_client_auth and not self.tls:
            raise ConfigError("tls_client_auth needs tls")
        if self.tls and self.tls_permissive:
            raise ConfigError("tls and tls_permissive are both set", hint="keep one")
        if self.broker_ip != "127.0.0.1" and self.version.startswith("4."):
            raise ConfigError(
                f"broker_ip {self.broker_ip} cannot be used with RocketMQ {self.version}",
                hint="4.x brokers listen on every address (no bindAddress), so a proxy finds no free port",
            )

    def _refuse_wrong_ha(self) -> None:
        if self.ha not in HA_VERSIONS:
            raise ConfigError(f"ha {self.ha!r} is unknown", hint=f"use one of {', '.join(HA_VERSIONS)}")
        if self.version not in HA_VERSIONS[self.ha]:
            raise ConfigError(
                f"RocketMQ {self.version} has no {self.ha}",
                hint=f"ha {self.ha} works with {' and '.join(HA_VERSIONS[self.ha])}",
            )
        if self.ha != "none" and (self.acl != "none" or self.tls or self.slaves):
            raise ConfigError(f"ha {self.ha} goes with neither acl, tls nor slaves", hint="leave them out")

    def _refuse_wrong_proxy(self) -> None:
        if not self.proxy:
            return
        if self.version not in PROXY_VERSIONS:
            raise ConfigError(
                f"RocketMQ {self.version} has no Proxy in the sandbox",
                hint=f"proxy works with {' and '.join(PROXY_VERSIONS)}",
            )
        if self.acl != "none":
            raise ConfigError("proxy does not go with acl", hint="leave one of them out")

    def __hash__(self) -> int:  # the generated one cannot hash a mapping
        return hash((self.name, self.version, self.brokers, self.acl, tuple(sorted(self.properties.items()))))

    def nameserver_names(self) -> list[str]:
        return ["namesrv", *(f"namesrv-{number}" for number in range(2, self.name_servers + 1))]

    def broker_names(self) -> list[str]:
        return [f"{self.name}-{chr(ord('a') + index)}" for index in range(self.brokers)]
