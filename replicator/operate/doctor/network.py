"""Name servers and brokers, each one by itself, from this machine."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from replicator.aio.bounded import bounded
from replicator.client.cluster import Cluster, Topology
from replicator.client.endpoint import Endpoint
from replicator.client.security import Security
from replicator.client.vip import vip_address
from replicator.errors import ClientError, ProtocolError, ReplicatorError
from replicator.operate.doctor.facts import Facts, read_facts
from replicator.operate.doctor.finding import Finding, bad, good, odd
from replicator.protocol.codes import Request
from replicator.settings import ClusterSettings

__all__ = ["Side", "examine_side"]

#: Seconds within which a name server or a broker must answer.
_ANSWER = 5.0
_AT_ONCE = 16


@dataclass(slots=True)
class Side:
    """A cluster as it was found: who is there, and what each broker with a master says of itself."""

    topology: Topology | None = None
    facts: dict[str, Facts] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


async def examine_side(side: str, settings: ClusterSettings, security: Security, cluster: Cluster) -> Side:
    """Looks at the `source` or the `target`; `cluster` is a client of it."""
    found = Side()
    found.findings += await bounded(
        lambda address: _name_server(side, address, security), settings.namesrv, at_once=_AT_ONCE
    )
    try:
        found.topology = await cluster.refresh()
    except ReplicatorError as error:
        found.findings.append(bad(f"{side} cluster", settings.cluster or "", error.message, error.hint or _WAY_OUT))
        return found
    masters = {b.name: b.master for b in found.topology.brokers.values() if b.master is not None}
    for broker in found.topology.brokers.values():
        if broker.master is None:
            advice = "start its master" if side == "target" else "its slave is read; start its master"
            found.findings.append(odd(f"{side} broker", broker.name, "it has no master now", advice))
    told = await bounded(
        lambda name: _broker(side, name, masters[name], security, found.facts), masters, at_once=_AT_ONCE
    )
    found.findings += [finding for findings in told for finding in findings]
    return found


_WAY_OUT = "check the address, that the name server runs, and TLS"


async def _name_server(side: str, address: str, security: Security) -> Finding:
    endpoint, began = Endpoint(address, security), time.monotonic()
    try:
        await endpoint.invoke(Request.GET_BROKER_CLUSTER_INFO, {}, timeout=_ANSWER)
    except ReplicatorError as error:
        return bad(f"{side} name server", address, error.message, error.hint or _WAY_OUT)
    finally:
        await endpoint.close()
    return good(f"{side} name server", address, f"answers in {(time.monotonic() - began) * 1000:.0f} ms")


async def _broker(side: str, name: str, address: str, security: Security, facts: dict[str, Facts]) -> list[Finding]:
    """The broker at the address that it has given its name servers, which must be reachable from here."""
    check, listen, vip = f"{side} broker", Endpoint(address, security), Endpoint(vip_address(address), security)
    began = time.monotonic()
    try:
        facts[name] = await asyncio.wait_for(read_facts(listen), _ANSWER)
    except (ClientError, ProtocolError, TimeoutError) as error:
        reason = error.message if isinstance(error, ReplicatorError) else "no answer"
        advice = "the address is the broker's own (brokerIP1): it must be reachable from here"
        return [bad(check, name, f"at {address}: {reason}", getattr(error, "hint", "") or advice)]
    finally:
        await listen.close()
    findings = [good(check, name, f"answers at {address} in {(time.monotonic() - began) * 1000:.0f} ms")]
    if side == "target":
        findings.append(await _vip(check, name, vip))
    return findings


async def _vip(check: str, name: str, vip: Endpoint) -> Finding:
    try:
        await asyncio.wait_for(vip.connection(), _ANSWER)
    except (ClientError, TimeoutError):
        message = f"its VIP port {vip.address} cannot be reached: the listen port is used, beside its consumers"
        return odd(check, name, message, "open the port: it is the listen port less 2")
    finally:
        await vip.close()
    return good(check, name, f"its VIP port {vip.address} can be reached")
