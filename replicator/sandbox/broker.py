"""A broker of the sandbox: a master with its optional slave, a slave, or one of two replicas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from replicator.client.security import Credentials
from replicator.protocol.codes import Request
from replicator.sandbox import config, java, probe
from replicator.sandbox.nameserver import NameServer
from replicator.sandbox.node import Node, Setup

__all__ = ["Broker"]

_LOCAL = "127.0.0.1"


class Broker(Node):
    """One broker process. It registers `address`, which routes name; it listens on 127.0.0.1 itself.

    `slave` is the second process of its name. With a controller that one may be the master as well.
    """

    def __init__(
        self,
        name: str,
        *,
        home: Path,
        setup: Setup,
        nameservers: Sequence[NameServer],
        is_slave: bool = False,
    ) -> None:
        super().__init__(name, home=home, setup=setup)
        self._nameservers = nameservers
        self._is_slave = is_slave
        self._controller = next((each.controller for each in nameservers if each.controller is not None), None)
        self.role = "replica" if self._controller is not None else "slave" if is_slave else "master"
        self.slave: Broker | None = None
        self.address = f"{setup.spec.broker_ip}:{self.port}"
        self.vip_port = self.port - 2

    async def answers(self) -> bool:
        """Whether its listen port answers, its VIP port accepts, and all running name servers route to it."""
        # Any answer is sufficient: with access control it is a refusal.
        answer = await probe.ask((_LOCAL, self.port), Request.GET_BROKER_CONFIG, tls=self._setup.context)
        return answer is not None and await probe.accepts((_LOCAL, self.vip_port)) and await self.registered()

    async def registered(self) -> bool:
        """Whether all running name servers list it."""
        return all([await each.lists(self.address) for each in self._nameservers if each.running])

    async def assist(self) -> None:
        """Have it register now: a 5.x broker does not register at its start if the connection to the name server
        is not ready, as often on a busy machine or with TLS, and retries only 10 s later.
        """
        # Setting the permission, even to its current value, triggers a registration.
        spec = self._setup.spec
        body = f"brokerPermission={spec.properties.get('brokerPermission', '6')}\n".encode()
        account = Credentials(config.ACCESS_KEY, config.SECRET_KEY)
        await probe.ask(
            (_LOCAL, self.port),
            Request.UPDATE_BROKER_CONFIG,
            tls=self._setup.context,
            credentials=None if spec.acl == "none" else account,
            body=body,
        )

    async def promote(self) -> None:
        """Restart a slave as the master, on its own store: what operators do where no controller does it."""
        await self.stop()
        self._is_slave, self.role = False, "master"
        await self.start()

    async def in_sync(self, count: int = 2) -> bool:
        """Whether the controller counts as many replicas of it as in sync."""
        found = None if self._controller is None else await self._controller.replicas(self.name)
        return found is not None and len(found.in_sync) == count

    def move(self) -> None:
        super().move()
        self.address = f"{self._setup.spec.broker_ip}:{self.port}"
        self.vip_port = self.port - 2

    def wipe(self) -> None:
        """Delete its store: messages, topics, groups, offsets and accounts."""
        self._delete(self.home / "store")

    def _main_class(self) -> str:
        return "org.apache.rocketmq.broker.BrokerStartup"

    def _arguments(self) -> list[str]:
        path = config.broker(
            self.home,
            spec=self._setup.spec,
            name=self.name,
            namesrv=";".join(each.address for each in self._nameservers),
            port=self.port,
            slave=self._is_slave,
            controller=None if self._controller is None else self._controller.address,
        )
        return ["-c", str(path)]

    def _memory(self) -> Sequence[str]:
        return java.BROKER_FLAGS
