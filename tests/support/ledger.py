"""Three brokers of one name, among which DLedger elects the leader: no controller is needed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from replicator.errors import ReplicatorError
from replicator.sandbox import Broker, Cluster, ClusterSpec, ports
from replicator.sandbox.node import Setup
from tests.support.clusters import JAVA_FLAGS
from tests.support.replicas import knows
from tests.support.traffic import connected
from tests.support.worker import until

__all__ = ["Ledger"]

_MEMBERS: Final = 3


class Ledger(Cluster):
    """A cluster of one broker, `ledger`, whose log is kept by three members; a majority acknowledges."""

    def __init__(self, version: str, directory: Path) -> None:
        spec = ClusterSpec(name="ledger", version=version, brokers=_MEMBERS)
        super().__init__(spec, directory=directory, java_flags=JAVA_FLAGS)
        self._peers = ports.lease()

    def _broker(self, name: str, *, setup: Setup) -> Broker:
        number = self.spec.broker_names().index(name)
        base = self._peers.base
        mode = {
            "brokerName": "ledger",
            "enableDLegerCommitLog": "true",
            "dLegerGroup": "ledger",
            "dLegerPeers": ";".join(f"n{member}-127.0.0.1:{base + member}" for member in range(_MEMBERS)),
            "dLegerSelfId": f"n{number}",
        }
        return super()._broker(name, setup=replace(setup, spec=replace(setup.spec, properties=mode)))

    async def start(self) -> None:
        await super().start()
        await self.leader()

    async def close(self) -> None:
        await super().close()
        self._peers.release()

    async def leader(self) -> Broker:
        """The member that the name server routes writes to."""

        async def found() -> Broker | None:
            try:
                async with connected(self) as client:
                    address = client.master("ledger").address
            except (ReplicatorError, OSError):
                return None
            return next((each for each in self.brokers if each.running and each.address == address), None)

        leader: Broker = await until(found, what="a leader")
        return leader

    async def know(self, topic: str) -> None:
        """Returns when all members know a topic, which the leader tells them now and then only."""
        for member in self.brokers:
            await until(partial(knows, member, {topic}), what=f"{member.name} knows the topic")
