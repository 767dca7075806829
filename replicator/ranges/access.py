"""How a task reaches a cluster: the parameters of connections, in a form that can be sent to executors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import uvloop

from replicator.aio.garbage import rarely_collected
from replicator.client.address_map import AddressMap
from replicator.client.broker_hosts import BrokerHosts
from replicator.client.cluster import Cluster
from replicator.client.security import Credentials, Security, TlsMode, tls_context
from replicator.client.socks import SocksProxy
from replicator.errors import ClientError, StartupError
from replicator.settings import ClusterSettings, SocksSettings

__all__ = ["Access", "run"]

#: Seconds between attempts to reach a cluster.
_PAUSE: Final = 0.5

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The parameters of one cluster, with the secret itself; TLS files are named, and must be on every executor."""

    namesrv: tuple[str, ...]
    cluster: str | None = None
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    tls: TlsMode = "off"
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    broker_hosts: tuple[str, ...] = ()
    address_map: tuple[str, ...] = ()
    socks: SocksProxy | None = None

    @classmethod
    def of(cls, settings: ClusterSettings) -> Access:
        """The access for a cluster's settings.

        Raises:
            ConfigError: the file with a secret of it cannot be used.
        """
        return cls(
            namesrv=tuple(settings.namesrv),
            cluster=settings.cluster,
            access_key=settings.access_key,
            secret_key=None if settings.access_key is None else settings.secret(),
            tls=settings.tls.mode,
            ca_file=settings.tls.ca_file,
            cert_file=settings.tls.cert_file,
            key_file=settings.tls.key_file,
            broker_hosts=tuple(settings.broker_hosts),
            address_map=tuple(settings.address_map),
            socks=_socks(settings.socks),
        )

    def security(self) -> Security:
        """The security of connections; raises the errors of `tls_context`."""
        credentials = None
        if self.access_key is not None and self.secret_key is not None:
            credentials = Credentials(self.access_key, self.secret_key)
        tls = tls_context(self.tls, ca_file=self.ca_file, cert_file=self.cert_file, key_file=self.key_file)
        hosts, addresses = BrokerHosts.of(self.broker_hosts), AddressMap.of(self.address_map)
        return Security(credentials, tls, hosts, addresses, self.socks)

    @asynccontextmanager
    async def connected(
        self, *, patience: float = 0.0, may_go_on: Callable[[], bool] | None = None
    ) -> AsyncIterator[Cluster]:
        """A client that knows the cluster's brokers, within the context.

        Args:
            patience: seconds to retry if the cluster does not answer. Spark makes all attempts of a task within a
                second, so without retries a broker's restart would fail the whole job.
            may_go_on: see `Cluster`.

        Raises:
            ConfigError, StartupError, Unreachable: see `tls_context` and `Cluster.refresh`.
        """
        cluster = Cluster(self.namesrv, security=self.security(), name=self.cluster, may_go_on=may_go_on)
        try:
            await _refreshed(cluster, asyncio.get_running_loop().time() + patience)
            yield cluster
        finally:
            await cluster.close()


def _socks(settings: SocksSettings) -> SocksProxy | None:
    if settings.address is None:
        return None
    return SocksProxy(settings.address, settings.username, settings.secret())


async def _refreshed(cluster: Cluster, until: float) -> None:
    while True:
        try:
            await cluster.refresh()
        except (ClientError, StartupError):
            if asyncio.get_running_loop().time() >= until:
                raise
            await asyncio.sleep(_PAUSE)
        else:
            return


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` in a new event loop, and returns its result."""
    with rarely_collected(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
