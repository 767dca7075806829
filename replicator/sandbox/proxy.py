"""A Proxy of the sandbox: what gRPC clients connect to, in cluster mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from replicator.sandbox import config, java, probe
from replicator.sandbox.nameserver import NameServer
from replicator.sandbox.node import Node, Setup

__all__ = ["Proxy"]

_LOCAL = "127.0.0.1"


class Proxy(Node):
    """One Proxy process. gRPC clients connect to `address`, remoting clients to `remoting_address`.

    Args:
        jars: all that it needs; those that brokers need too come from `setup`.
    """

    role = "proxy"

    def __init__(
        self, name: str, *, home: Path, setup: Setup, nameservers: Sequence[NameServer], jars: Sequence[Path]
    ) -> None:
        more = [jar for jar in jars if jar not in setup.classpath]
        # Behind the brokers' jars: an archive of classes serves any class path that begins as its own.
        super().__init__(name, home=home, setup=replace(setup, classpath=[*setup.classpath, *more]))
        self._nameservers = nameservers
        self.address = f"{_LOCAL}:{self.port}"

    @property
    def remoting_address(self) -> str:
        """Where it takes requests of remoting clients: those that a Proxy passes on."""
        return f"{_LOCAL}:{self.port + 1}"

    async def answers(self) -> bool:
        """Whether both of its ports accept connections; it opens them once it is ready."""
        return await probe.accepts((_LOCAL, self.port)) and await probe.accepts((_LOCAL, self.port + 1))

    def move(self) -> None:
        super().move()
        self.address = f"{_LOCAL}:{self.port}"

    def _main_class(self) -> str:
        return "org.apache.rocketmq.proxy.ProxyStartup"

    def _arguments(self) -> list[str]:
        namesrv = ";".join(each.address for each in self._nameservers)
        setup = self._setup
        path = config.proxy(self.home, spec=setup.spec, namesrv=namesrv, port=self.port, tls=setup.tls)
        return ["-pc", str(path)]

    def _memory(self) -> Sequence[str]:
        return java.PROXY_FLAGS
