"""A name server of the sandbox."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from replicator.protocol.codes import Request
from replicator.sandbox import config, java, probe
from replicator.sandbox.controller import Controller
from replicator.sandbox.node import Node, Setup

__all__ = ["NameServer"]


class NameServer(Node):
    """One of the cluster's name servers. It stores nothing: brokers register again within 10 s after a restart."""

    role = "name server"

    def __init__(self, name: str, *, home: Path, setup: Setup, controller: bool = False) -> None:
        super().__init__(name, home=home, setup=setup)
        self.address = f"127.0.0.1:{self.port}"
        #: The controller that runs in it, if any.
        self.controller = Controller(self.port + 1) if controller else None

    async def answers(self) -> bool:
        if self.controller is not None and not await self.controller.answers():
            return False
        return await self.cluster_info() is not None

    async def lists(self, address: str) -> bool:
        """Whether a broker is registered with this address."""
        # The answer is not standard JSON; the quoted address has no other meaning in it.
        return f'"{address}"'.encode() in (await self.cluster_info() or b"")

    async def cluster_info(self) -> bytes | None:
        answer = await probe.ask(("127.0.0.1", self.port), Request.GET_BROKER_CLUSTER_INFO, tls=self._setup.context)
        return None if answer is None else answer.body

    def _main_class(self) -> str:
        return "org.apache.rocketmq.namesrv.NamesrvStartup"

    def _arguments(self) -> list[str]:
        port = None if self.controller is None else self.controller.port
        path = config.nameserver(self.home, spec=self._setup.spec, port=self.port, controller_port=port)
        return ["-c", str(path)]

    def _memory(self) -> Sequence[str]:
        return java.NAMESRV_FLAGS
