"""The controller of a cluster: it elects the master among the replicas of each broker."""

from __future__ import annotations

from dataclasses import dataclass

from replicator.protocol.codes import Request, Response
from replicator.protocol.fastjson import parse
from replicator.protocol.frame import Frame
from replicator.sandbox import probe

__all__ = ["Controller", "ReplicaInfo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaInfo:
    """A broker as the controller knows it: its master's address and epoch, and the ids of the replicas in sync."""

    master: str
    epoch: int
    in_sync: frozenset[int]


class Controller:
    """A controller that listens at `port`; it runs inside a name server, and starts and ends with that."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.address = f"127.0.0.1:{port}"

    async def answers(self) -> bool:
        """Whether it has become the leader of its own group of one, and serves brokers."""
        return await self._ask(Request.CONTROLLER_GET_REPLICA_INFO, {"brokerName": "none"}) is not None

    async def replicas(self, broker: str) -> ReplicaInfo | None:
        """What it knows of a broker; None while that has no master."""
        answer = await self._ask(Request.CONTROLLER_GET_REPLICA_INFO, {"brokerName": broker})
        master = None if answer is None else answer.fields.get("masterAddress")
        if answer is None or answer.code != Response.SUCCESS or not master:
            return None
        return ReplicaInfo(
            master=master,
            epoch=answer.number("masterEpoch"),
            in_sync=frozenset(parse(answer.body)["syncStateSet"]),
        )

    async def configure(self, **properties: object) -> None:
        """Changes its configuration, such as `enableElectUncleanMaster`, until it is started again."""
        body = "".join(f"{name}={value}\n" for name, value in properties.items()).encode()
        await self._ask(Request.UPDATE_CONTROLLER_CONFIG, {}, body)

    async def _ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> Frame | None:
        return await probe.ask(("127.0.0.1", self.port), code, tls=None, fields=fields, body=body)
