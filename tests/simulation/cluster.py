"""A simulated cluster: brokers with their disks, and a name server, each a process that can die."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulation.broker import Broker
from tests.simulation.kernel import Kernel, Process
from tests.simulation.nameserver import NameServer
from tests.simulation.network import Host, Network
from tests.simulation.store import Store

__all__ = ["Node", "SimCluster"]

#: Seconds at most until a broker that has started is known to the name server.
_REGISTERS = 1.0


@dataclass(eq=False)
class Node:
    """A broker and its machine."""

    name: str
    host: Host
    broker: Broker

    @property
    def up(self) -> bool:
        return self.host.process.alive


class SimCluster:
    """`brokers` brokers of `version`, called NAME-a, NAME-b …"""

    def __init__(
        self, kernel: Kernel, network: Network, *, name: str, version: str, brokers: int, net: str
    ) -> None:
        self.kernel = kernel
        self.network = network
        self.name = name
        self.version = version
        self.namesrv = NameServer(self._host(f"{net}.1", f"{name}-namesrv"), version=version)
        self.nodes: list[Node] = []
        for number in range(brokers):
            broker = f"{name}-{chr(ord('a') + number)}"
            host = self._host(f"{net}.{10 + number}", broker)
            self.nodes.append(Node(broker, host, self._broker(host, broker, Store())))
            self._register(self.nodes[-1])

    def _host(self, address: str, name: str) -> Host:
        host = self.network.hosts[address] = Host(address, Process(self.kernel, name))
        host.process.ahead = self.kernel.random.uniform(-2.0, 2.0)
        return host

    def _broker(self, host: Host, name: str, store: Store) -> Broker:
        made = Broker(self.kernel, host, name=name, cluster=self.name, version=self.version, store=store)
        made.lag = self.kernel.random.choice((0.001, 0.02, 0.5))
        return made

    def _register(self, node: Node) -> None:
        self.namesrv.brokers[self.name, node.name] = node.broker.address

    def _unregister(self, node: Node) -> None:
        self.namesrv.brokers.pop((self.name, node.name), None)

    @property
    def brokers(self) -> Sequence[Broker]:
        return [node.broker for node in self.nodes]

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def kill(self, node: Node) -> None:
        """What it has stored stays; the name server hears of it a little later."""
        node.host.process.kill()
        node.host.listening = {}
        self.network.died(node.host)
        self.kernel.plan(0.01, lambda: None if node.up else self._unregister(node))

    def start(self, node: Node) -> None:
        """Starts it again, with the disk that it had."""
        old = node.broker
        ahead = node.host.process.ahead
        node.host.process = Process(self.kernel, node.name)
        node.host.process.ahead = ahead
        node.broker = self._broker(node.host, node.name, old.store)
        node.broker.on_stored, node.broker.slow = old.on_stored, old.slow
        delay = self.kernel.random.uniform(0.0, _REGISTERS)
        self.kernel.plan(delay, lambda: self._register(node) if node.up else None, node.host.process)
