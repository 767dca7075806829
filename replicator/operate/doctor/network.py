"""Name servers and brokers, each one by itself, from this machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from replicator.aio.bounded import bounded
from replicator.client.address import split_address
from replicator.client.address_server import AddressServer
from replicator.client.cluster import Broker, Cluster, Topology
from replicator.client.endpoint import Endpoint
from replicator.client.security import Security
from replicator.errors import (
    BrokerRefused,
    ClientError,
    NoTls,
    ProtocolError,
    ReplicatorError,
    RequestTimeout,
    is_absence,
)
from replicator.operate.doctor.brokers import judge_broker, judge_slave
from replicator.operate.doctor.facts import Facts, read_facts
from replicator.operate.doctor.finding import Finding, bad, good, odd, unchecked
from replicator.operate.doctor.pair import TLS_WORDS, judge_access
from replicator.protocol.codes import Request
from replicator.settings import ClusterSettings, RouteSettings
from replicator.settings.clusters import is_address_server

__all__ = ["Heard", "Side", "examine_side", "judge_behind_proxy", "judge_name_servers"]

#: Seconds within which a name server or a broker must answer.
_ANSWER: Final = 5.0
#: Machines that are connected to at a time, so that some that do not answer delay the others little.
_AT_ONCE: Final = 16
#: Where the VIP port of a broker is, by where its listen port is.
VipOf = Callable[[str], str]
_HANGS: Final = "it hangs: look at its machine, its disk and its log, and restart it"
#: With the word for who is asked where brokers are.
_WAY_OUT: Final = "check the address, that the {} runs, and TLS"


class Heard(NamedTuple):
    """What came of asking `address`: after how many milliseconds it answered, or why it did not."""

    address: str
    milliseconds: float = 0.0
    failure: str = ""
    hint: str = ""


@dataclass(slots=True)
class Side:
    """A cluster as it was found: who is there, and what each broker with a master says of itself."""

    topology: Topology | None = None
    facts: dict[str, Facts] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


async def examine_side(
    side: str,
    settings: ClusterSettings,
    security: Security,
    cluster: Cluster,
    *,
    route: RouteSettings,
    writes: bool,
) -> Side:
    """Looks at the `source` or the `target`.

    Args:
        cluster: a client of it.
        writes: the route sends something there, if only its heartbeats.
    """
    found = Side()
    servers = await _name_servers(side, settings.namesrv, security, found.findings)
    heard = await bounded(lambda address: _name_server(address, security), servers, at_once=_AT_ONCE)
    found.findings += judge_name_servers(side, heard, called=cluster.asked)
    try:
        found.topology = await cluster.refresh()
    except ReplicatorError as error:
        check, name = f"{side} cluster", settings.cluster or ",".join(settings.namesrv)
        if not any(finding.message.endswith(error.message) for finding in found.findings):
            found.findings.append(bad(check, name, error.message, error.hint or _WAY_OUT.format(cluster.asked)))
        found.findings.append(
            unchecked(check, name, f"its brokers, because no {cluster.asked} says which they are")
        )
        return found
    if cluster.is_proxy:
        found.findings += judge_behind_proxy(side, found.topology, settings)
        return found
    brokers = [broker for _, broker in sorted(found.topology.brokers.items())]
    vip_of = cluster.vip_address if writes else None
    reached = await bounded(
        lambda broker: _broker(side, broker, security, found.facts, vip_of=vip_of), brokers, at_once=_AT_ONCE
    )
    for broker, findings in zip(brokers, reached, strict=True):
        found.findings += findings
        if broker.name in found.facts:
            found.findings += judge_broker(side, broker.name, found.facts[broker.name], route)
    if found.facts:
        found.findings += judge_access(side, settings, found.facts)
    return found


async def _name_servers(
    side: str, given: Sequence[str], security: Security, findings: list[Finding]
) -> Sequence[str]:
    """The name servers; those that an address server names, with what is found of it."""
    if not is_address_server(given[0]):
        return given
    check = f"{side} address server"
    try:
        named = await AddressServer(given[0], security).read()
    except ReplicatorError as error:
        findings.append(bad(check, given[0], error.message, error.hint or "check the URL, and that it runs"))
        return ()
    findings.append(good(check, given[0], f"names {', '.join(named)}"))
    return named


async def _name_server(address: str, security: Security) -> Heard:
    endpoint, began = Endpoint(address, security), time.monotonic()
    try:
        async with asyncio.timeout(2 * _ANSWER):
            await endpoint.invoke(Request.GET_BROKER_CLUSTER_INFO, {}, timeout=_ANSWER)
    except ReplicatorError as error:
        return Heard(address, failure=error.message, hint=error.hint)
    except TimeoutError:
        return Heard(address, failure=f"{address} does not answer")
    finally:
        await endpoint.close()
    return Heard(address, (time.monotonic() - began) * 1000)


def judge_behind_proxy(side: str, topology: Topology, settings: ClusterSettings) -> Iterator[Finding]:
    """Of a cluster whose brokers are asked through a Proxy: which they are, and what it does not tell of them."""
    check, brokers = f"{side} cluster", sorted(topology.brokers)
    yield good(check, topology.cluster, f"brokers that have the topics: {', '.join(brokers)}")
    for broker in brokers:
        message = "its version, clock, disk and settings, because a Proxy does not tell them"
        yield unchecked(f"{side} broker", broker, message)
    yield good(check, "TLS", TLS_WORDS[settings.tls.mode])


def judge_name_servers(side: str, heard: Sequence[Heard], called: str = "name server") -> Iterator[Finding]:
    """Of each: one that does not answer stops nothing while another does."""
    check, answering = f"{side} {called}", [each for each in heard if not each.failure]
    way_out = _WAY_OUT.format(called)
    for each in heard:
        if not each.failure:
            yield good(check, each.address, f"answers in {each.milliseconds:.0f} ms")
        elif answering:
            message = f"{each.failure}; the route uses {answering[0].address}"
            yield odd(check, each.address, message, each.hint or f"{way_out}; or leave it out of --{side}")
        else:
            yield bad(check, each.address, each.failure, each.hint or way_out)


async def _broker(
    side: str, broker: Broker, security: Security, facts: dict[str, Facts], *, vip_of: VipOf | None
) -> list[Finding]:
    check = f"{side} broker"
    slaves = [address for number, address in sorted(broker.addresses.items()) if number]
    findings = await bounded(lambda address: _slave(side, broker.name, address, security), slaves, at_once=_AT_ONCE)
    if broker.master is None:
        advice = "start its master" if side == "target" else "its slave is read; start its master"
        return [odd(check, broker.name, "it has no master now", advice), *findings]
    return await _master(check, broker.name, broker.master, security, facts, vip_of=vip_of) + findings


async def _master(
    check: str, name: str, address: str, security: Security, facts: dict[str, Facts], *, vip_of: VipOf | None
) -> list[Finding]:
    """The broker at the address that it has given its name servers, which must be reachable from here."""
    answer = await _facts(address, security)
    if isinstance(answer, Heard):
        return [
            bad(check, name, f"at {address}: {answer.failure}", answer.hint or _address_advice(address)),
            unchecked(check, name, "its version, clock, disk and settings, because it does not say"),
        ]
    took, facts[name] = answer
    findings = [good(check, name, f"answers at {address} in {took:.0f} ms")]
    if vip_of is not None:
        findings.append(await _vip(check, name, vip_of(address), security))
    return findings


def _address_advice(address: str) -> str:
    return (
        f"the broker has given its name servers this address (brokerIP1): try `nc -vz {address.replace(':', ' ')}`"
        " here, open the port, or set brokerIP1 in its broker.conf to an address that this machine can reach;"
        " behind a gateway set address_map"
    )


async def _facts(address: str, security: Security) -> tuple[float, Facts] | Heard:
    """Its facts, and how many milliseconds they took; or why there are none."""
    endpoint, began, connected = Endpoint(address, security), time.monotonic(), False
    try:
        async with asyncio.timeout(_ANSWER):
            await endpoint.connection()
            connected, took = True, (time.monotonic() - began) * 1000
            return took, await read_facts(endpoint)
    except (ClientError, ProtocolError) as error:
        heard = Heard(address, failure=error.message, hint=error.hint or _way_out(error))
        silent = isinstance(error, RequestTimeout) or (security.tls is not None and is_absence(error))
    except TimeoutError:
        heard, silent = Heard(address, failure="no answer"), True
    finally:
        await endpoint.close()
    if silent and not heard.hint and (connected or await _takes_connections(address, security)):
        failure = f"it takes connections, and gives no answer within {_ANSWER:g} s"
        return Heard(address, failure=failure, hint=_HANGS)
    return heard


async def _takes_connections(address: str, security: Security) -> bool:
    """Whether somebody listens there: where a TLS handshake fails, a connection alone says so."""
    if security.socks is not None:
        return False  # its proxy takes them
    try:
        host, port = split_address(address)
        async with asyncio.timeout(_ANSWER):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, ValueError):
        return False
    writer.close()
    return True


def _way_out(error: ReplicatorError) -> str:
    """Of a broker that is there; empty where it is not."""
    if isinstance(error, NoTls):
        return "see the settings tls.mode and tls.ca_file of this side"
    if isinstance(error, BrokerRefused):
        return "set access_key of this side and its secret, and grant the account what docs/ACL.md lists"
    return "update this program, or see what answers there" if isinstance(error, ProtocolError) else ""


async def _slave(side: str, name: str, address: str, security: Security) -> Finding:
    """One that is read while its master is away, at the source, and may become the master, at either side."""
    answer = await _facts(address, security)
    if isinstance(answer, Heard):
        message = f"{answer.failure}: the route waits while its master is away, or when it becomes the master"
        return odd(f"{side} slave", f"{name} at {address}", message, answer.hint or _address_advice(address))
    if side == "source":
        return judge_slave(name, address, answer[1])
    return good("target slave", f"{name} at {address}", "it answers, should it become the master")


async def _vip(check: str, name: str, address: str, security: Security) -> Finding:
    vip = Endpoint(address, security)
    try:
        async with asyncio.timeout(_ANSWER):
            # A port forwarder without a broker behind it takes connections, too.
            await vip.invoke(Request.GET_BROKER_RUNTIME_INFO, {}, timeout=_ANSWER)
    except (ClientError, ProtocolError, TimeoutError):
        message = f"its VIP port {vip.address} does not answer: the listen port is used, beside its consumers"
        return odd(
            check, name, message, f"open port {vip.address.rpartition(':')[2]} there: the listen port less 2"
        )
    finally:
        await vip.close()
    return good(check, name, f"its VIP port {vip.address} answers")
