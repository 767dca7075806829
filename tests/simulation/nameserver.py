"""A name server in memory: it knows the brokers that have registered, and forgets those whose connections end."""

from __future__ import annotations

from typing import Final

from replicator.protocol.codes import Request, Response
from replicator.protocol.frame import Frame
from tests.simulation.kernel import Urgency
from tests.simulation.network import Host, Wire
from tests.simulation.remoting import Answer, RemotingSession

__all__ = ["NAMESRV_PORT", "NameServer"]

NAMESRV_PORT: Final = 9876


class NameServer:
    """`brokers` are the addresses of masters by cluster and name."""

    def __init__(self, host: Host, *, version: str) -> None:
        self.host = host
        self.brokers: dict[tuple[str, str], str] = {}
        self._old = version.startswith("4.")
        host.listening = {NAMESRV_PORT: self._accept}

    @property
    def address(self) -> str:
        return f"{self.host.name}:{NAMESRV_PORT}"

    def _accept(self, wire: Wire) -> RemotingSession:
        return RemotingSession(wire, self._come)

    def _come(self, session: RemotingSession, request: Frame) -> None:
        kernel = self.host.process.kernel
        kernel.plan(
            0.0002, lambda: session.answer(request, self._answer(request)), self.host.process, Urgency.READY
        )

    def _answer(self, request: Frame) -> Answer:
        if request.code == Request.GET_BROKER_CLUSTER_INFO:
            return Answer(body=self._clusters().encode())
        return Answer(Response.REQUEST_CODE_NOT_SUPPORTED, f" request type {request.code} not supported")

    def _clusters(self) -> str:
        """In fastjson's own form: numbers as keys have no quotes."""
        acting = "" if self._old else ',"enableActingMaster":false'
        brokers: list[str] = []
        clusters: dict[str, list[str]] = {}
        for (cluster, name), address in sorted(self.brokers.items()):
            clusters.setdefault(cluster, []).append(f'"{name}"')
            brokers.append(
                f'"{name}":{{"brokerAddrs":{{0:"{address}"}},"brokerName":"{name}","cluster":"{cluster}"{acting}}}'
            )
        listed = ",".join(f'"{cluster}":[{",".join(names)}]' for cluster, names in clusters.items())
        return f'{{"brokerAddrTable":{{{",".join(brokers)}}},"clusterAddrTable":{{{listed}}}}}'
