"""A RocketMQ cluster on this machine: name servers and brokers, started and ended together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from replicator.errors import SandboxError
from replicator.sandbox import config, jars, tls
from replicator.sandbox.broker import Broker
from replicator.sandbox.class_archive import ClassArchive
from replicator.sandbox.nameserver import NameServer
from replicator.sandbox.node import Earlier, Node, Setup
from replicator.sandbox.proxy import Proxy
from replicator.sandbox.spec import ClusterSpec

__all__ = ["Cluster", "together"]

#: Seconds until brokers are registered, or replicas in sync: a broker tries again only after ten.
_REGISTER_SECONDS = 30.0


class Cluster:
    """The cluster of `spec`, with all its files below `directory`.

    Its processes end with the thread that started it, however that ends; with `record` they keep running, and
    `record` is called with each node as soon as its process runs. `java_flags` are extra flags for all its JVMs.
    `say` is called with each step of the start, in words. `earlier` are the processes of a cluster that another
    command has started, by the names of their directories.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        directory: Path,
        record: Callable[[Node], None] | None = None,
        java_flags: Sequence[str] = (),
        say: Callable[[str], None] = lambda _: None,
        earlier: Mapping[str, Earlier] | None = None,
    ) -> None:
        self.spec = spec
        self._java_flags = java_flags
        self.directory = directory.absolute()
        self._record = record
        self._say = say
        self._earlier = earlier or {}
        self.nameservers: list[NameServer] = []
        self._tls: tls.TlsFiles | None = None
        self.brokers: list[Broker] = []
        self._proxy: Proxy | None = None

    async def __aenter__(self) -> Cluster:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def nameserver(self) -> NameServer:
        """The first name server, in most clusters the only one."""
        if not self.nameservers:
            raise SandboxError(f"cluster {self.spec.name} has not been started")
        return self.nameservers[0]

    @property
    def namesrv(self) -> str:
        """The addresses of the name servers, in the form of a setting."""
        return ",".join(each.address for each in self.nameservers)

    @property
    def proxy(self) -> Proxy:
        """The Proxy of a cluster that has one."""
        if self._proxy is None:
            raise SandboxError(f"cluster {self.spec.name} has no Proxy")
        return self._proxy

    @property
    def nodes(self) -> list[Node]:
        slaves = [broker.slave for broker in self.brokers if broker.slave]
        return [*self.nameservers, *self.brokers, *slaves, *((self._proxy,) if self._proxy else ())]

    @property
    def access_key(self) -> str:
        return "" if self.spec.acl == "none" else config.ACCESS_KEY

    @property
    def secret_key(self) -> str:
        return "" if self.spec.acl == "none" else config.SECRET_KEY

    @property
    def tls_files(self) -> tls.TlsFiles:
        if self._tls is None:
            raise SandboxError(f"cluster {self.spec.name} has no TLS")
        return self._tls

    @property
    def ca_file(self) -> Path:
        return self.tls_files.ca

    @property
    def client_cert_file(self) -> Path:
        return self.tls_files.client_cert

    @property
    def client_key_file(self) -> Path:
        return self.tls_files.client_key

    async def start(self) -> None:
        """Start all processes and wait until they serve; if one fails, end the others."""
        if self.nameservers:
            raise SandboxError(f"cluster {self.spec.name} has been started already")
        try:
            archive = await self._prepare()
            await self._start(self.nodes)
            if archive.wanted:
                self._say(f"saving a class cache for RocketMQ {self.spec.version}: later starts are faster")
                first = (self.nameserver, self.brokers[0])
                await asyncio.to_thread(archive.make, [node.loaded_classes for node in first])
        except BaseException:
            await self.close()
            raise

    async def start_again(self, directories: Collection[str]) -> None:
        """Start those of the processes from before, with their files and on their ports; leave the others alone."""
        await self._prepare()
        await self._start([node for node in self.nodes if node.home.name in directories])
        await self.registered()

    async def _prepare(self) -> ClassArchive:
        """Make all nodes, of which none is started here."""
        classpath = await asyncio.to_thread(jars.ensure, self.spec.version)
        archive = await asyncio.to_thread(ClassArchive, self.spec.version, classpath)
        self.directory.mkdir(parents=True, exist_ok=True)
        if self.spec.tls:
            made = self.directory / "tls"
            self._tls = tls.files(made) if self._earlier else tls.make(made, client_auth=self.spec.tls_client_auth)
        setup = Setup(
            spec=self.spec,
            classpath=classpath,
            archive=archive,
            tls=self._tls,
            context=self._tls.context() if self._tls else None,
            java_flags=self._java_flags,
            record=self._record,
            say=self._say,
            earlier=self._earlier,
        )
        self.nameservers = [
            NameServer(
                f"{self.spec.name}-{name}",
                home=self.directory / name,
                setup=setup,
                controller=index == 0 and self.spec.ha == "controller",
            )
            for index, name in enumerate(self.spec.nameserver_names())
        ]
        self.brokers = [self._broker(name, setup=setup) for name in self.spec.broker_names()]
        if self.spec.proxy:
            needed = await asyncio.to_thread(jars.ensure, f"{self.spec.version}-proxy")
            self._proxy = self._make_proxy(setup, needed)
        return archive

    async def _start(self, nodes: Collection[Node]) -> None:
        slaves = [broker.slave for broker in self.brokers if broker.slave]
        for each in (self.nameservers, self.brokers, slaves):
            await together(node.start() for node in each if node in nodes)
        if self.spec.ha == "controller" and all(broker.running for broker in (*self.brokers, *slaves)):
            await self.in_sync()
        if self._proxy is not None and self._proxy in nodes:  # last: it makes a topic of its own at the brokers
            await self._proxy.start()

    async def close(self) -> None:
        """End all processes. The files stay for inspection."""
        nodes = self.nodes
        await asyncio.gather(*(node.kill() for node in nodes))
        for node in nodes:
            node.release()

    async def registered(self) -> None:
        """Wait until the name servers that run list all running brokers, as after a restart of their own."""
        deadline = time.monotonic() + _REGISTER_SECONDS
        brokers = [node for node in self.nodes if isinstance(node, Broker) and node.running]
        for broker in brokers:
            while not await broker.registered():
                if time.monotonic() > deadline:
                    raise SandboxError(f"{broker.name} did not register within {_REGISTER_SECONDS:g} s")
                await broker.assist()
                await asyncio.sleep(0.2)

    async def in_sync(self) -> None:
        """Wait until the controller counts all replicas as in sync."""
        deadline = time.monotonic() + _REGISTER_SECONDS
        for broker in self.brokers:
            while not await broker.in_sync():
                if time.monotonic() > deadline:
                    raise SandboxError(f"the replicas of {broker.name} were not in sync in {_REGISTER_SECONDS:g} s")
                await asyncio.sleep(0.1)

    def _broker(self, name: str, *, setup: Setup) -> Broker:
        broker = Broker(name, home=self.directory / name, setup=setup, nameservers=self.nameservers)
        if self.spec.slaves or self.spec.ha == "controller":
            home = self.directory / f"{name}-slave"
            broker.slave = Broker(name, home=home, setup=setup, nameservers=self.nameservers, is_slave=True)
        return broker

    def _make_proxy(self, setup: Setup, needed: Sequence[Path]) -> Proxy:
        home = self.directory / "proxy"
        return Proxy(f"{self.spec.name}-proxy", home=home, setup=setup, nameservers=self.nameservers, jars=needed)


async def together(starts: Iterable[Coroutine[None, None, None]]) -> None:
    """Run all concurrently; if one fails, cancel the others and raise its error."""
    tasks = [asyncio.ensure_future(start) for start in starts]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
