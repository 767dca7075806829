"""One RocketMQ cluster: its name servers, its brokers, and endpoints to them.

Brokers that vanish from the name servers are remembered: whoever works with one waits for its return
instead of losing its name.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

from replicator.client.broker_identity import is_broker
from replicator.client.brokers import BrokerConfig, read_config
from replicator.client.connection import Connection
from replicator.client.endpoint import Endpoint
from replicator.client.nameservers import NameServers, NoBrokers, NoNameServer, NothingKnown, NotServed, parsed
from replicator.client.offsets import OffsetTable, read_offsets
from replicator.client.order import OrderTables, delete_order, read_orders, write_order
from replicator.client.refused import code_in, remark_in
from replicator.client.security import Security
from replicator.client.topics import TopicTable, read_topics
from replicator.client.vip import VipChannel, vip_address
from replicator.errors import (
    BrokerRefused,
    ClientError,
    ProtocolError,
    ReplicatorError,
    StartupError,
    Unreachable,
    WrongBroker,
)
from replicator.protocol.codes import Request, Response
from replicator.protocol.frame import Frame
from replicator.protocol.numbers import as_long

__all__ = ["Broker", "Cluster", "Topology"]

_MASTER: Final = 0
#: A topic that is asked for where any would do.
_ANY_TOPIC: Final = "TBW102"
#: Brokers that a cluster has at most, those that it ever had included, and addresses of these: ten times as many as
#: the largest ones have. Whoever answers in a name server's place may name any number.
_MOST_BROKERS: Final = 4096
_MOST_ADDRESSES: Final = 4 * _MOST_BROKERS


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker group: the addresses of its members by broker id; 0 is the master."""

    name: str
    addresses: Mapping[int, str]

    @property
    def master(self) -> str | None:
        return self.addresses.get(_MASTER)

    @property
    def readable(self) -> str:
        """The master, or the slave with the lowest id when the master is gone."""
        return self.addresses[min(self.addresses)]


@dataclass(frozen=True, slots=True)
class Topology:
    """The brokers of one cluster as its name servers know them now."""

    cluster: str
    brokers: Mapping[str, Broker]


class Cluster:
    """Connections to one cluster, each to the broker that is meant: addresses may change hands.

    Args:
        name: the cluster's name; needed only where its name servers serve several.
        on_fallback: called with a broker's name and a reason when its VIP port cannot be reached.
        may_go_on: as in `Connection`, for all requests to brokers.
    """

    #: Whether nothing but a Proxy is reached: then its brokers say nothing of themselves (`ProxyCluster`).
    is_proxy: ClassVar[bool] = False
    #: Who is asked where its brokers are.
    asked: ClassVar[str] = "name server"

    def __init__(
        self,
        nameservers: Sequence[str],
        *,
        security: Security | None = None,
        name: str | None = None,
        on_fallback: Callable[[str, str], None] = lambda _broker, _reason: None,
        may_go_on: Callable[[], bool] | None = None,
    ) -> None:
        self._may_go_on = may_go_on
        self._security = security or Security()
        self._nameservers = NameServers(nameservers, self._security, called=self.asked)
        self._name = name
        self._on_fallback = on_fallback
        #: By the name of the broker, and its address.
        self._endpoints: dict[tuple[str, str], Endpoint] = {}
        self._vips: dict[tuple[str, str], VipChannel] = {}
        self._brokers: dict[str, Broker] = {}
        self._known_as = name or ""
        #: What a broker advertises, by where it is reached.
        self._advertised: dict[str, str] = {}
        #: Which look at the name servers is the newest, and which one the newest of which anything is known.
        self._looks = self._known_since = 0

    @property
    def known_as(self) -> str:
        """The cluster's name; empty before the name servers have said it."""
        return self._known_as

    @property
    def addresses(self) -> list[str]:
        """The name servers."""
        return self._nameservers.addresses

    @property
    def verified(self) -> bool:
        """Whether nobody in between can read what is sent, or answer: the peer's certificate is checked."""
        tls = self._security.tls
        return tls is not None and tls.verify_mode is ssl.CERT_REQUIRED

    @property
    def account(self) -> str:
        """The account that requests are signed as; empty when they are not."""
        credentials = self._security.credentials
        return "" if credentials is None else credentials.access_key

    def brokers(self) -> Mapping[str, Broker]:
        """All brokers ever seen, each with its newest addresses."""
        return self._brokers

    async def refresh(self) -> Topology:
        """Asks the name servers for the cluster's brokers (106); there is at least one.

        Raises:
            Unreachable: no name server answered.
            NoBrokers: no broker is registered yet.
            StartupError: the address is not that of a name server, it is not clear which cluster is meant, or no
                name server knows it or is well.
        """
        self._looks += 1
        look = self._looks
        try:
            topology = await self._nameservers.read(Request.GET_BROKER_CLUSTER_INFO, {}, self._read)
        except NoNameServer as error:
            raise await self._named(error) from None
        if look > self._known_since:  # else who was asked later has answered sooner
            self._known_since = look
            self._brokers.update(topology.brokers)
            self._known_as = topology.cluster
            reached = {address for broker in self._brokers.values() for address in broker.addresses.values()}
            self._advertised = {at: said for at, said in self._advertised.items() if at in reached}
        return topology

    def name_topics(self, topics: Iterable[str]) -> None:
        """Says which topics are copied: where brokers do not list theirs, these are asked for from now on."""

    async def read_topics(self, broker: Endpoint, *, known: TopicTable | None = None) -> TopicTable:
        """The topics of `broker`, as `topics.read_topics`."""
        return await read_topics(broker, known=known)

    async def read_config(self, broker: Endpoint) -> BrokerConfig:
        """The configuration of `broker`, as `brokers.read_config`."""
        return await read_config(broker)

    async def read_offsets(
        self,
        broker: Endpoint,
        *,
        known: OffsetTable | None = None,
        groups: Iterable[str] = (),
        beside: Iterable[tuple[str, str]] = (),
    ) -> OffsetTable:
        """The offsets of all groups, as `offsets.read_offsets`.

        Args:
            groups: where not all can be asked for, those that are, in the topics that were named.
            beside: and a group with a topic each.
        """
        return await read_offsets(broker, known=known)

    def shows_all(self, broker: str, address: str) -> bool:
        """Whether `broker`, asked at `address`, has no other topics than those that it shows."""
        return self.is_master(broker, address)

    async def orders(self) -> OrderTables:
        """The order configurations of its topics, of each name server; errors as `read_orders`."""
        return await read_orders(self._nameservers)

    async def write_order(self, nameserver: str, topic: str, value: str) -> None:
        """Puts one at a name server; errors as `NameServers.ask_one`."""
        await write_order(self._nameservers, nameserver, topic, value)

    async def delete_order(self, nameserver: str, topic: str) -> None:
        """Removes one from a name server; errors as `NameServers.ask_one`."""
        await delete_order(self._nameservers, nameserver, topic)

    async def _named(self, found: NoNameServer) -> StartupError:
        """What answers instead: a broker, or a Proxy, which of a name server's requests serves the routes (105)."""
        try:
            await self._nameservers.ask_one(found.address, Request.GET_ROUTEINFO_BY_TOPIC, {"topic": _ANY_TOPIC})
        except BrokerRefused as refused:
            if refused.code == Response.REQUEST_CODE_NOT_SUPPORTED:
                return found
        except ClientError:
            return found
        told = found.message.replace(f"{found.address} is a broker,", f"{found.address} is a Proxy,")
        return StartupError(
            f"{told}; a Proxy cannot be asked for all topics, groups and offsets",
            hint="name the cluster's name servers, and make its brokers reachable, by an address map or SOCKS5;"
            " from a source of which nothing else is reached, source.proxy copies topics that are named",
        )

    def _read(self, address: str, answer: Frame) -> Topology:
        if answer.code == Response.REQUEST_CODE_NOT_SUPPORTED:
            raise NoNameServer(address)
        if answer.code != Response.SUCCESS:
            raise NotServed(
                f"{address} refused to list its brokers: {code_in(answer)}, {remark_in(answer) or 'no remark'}",
                hint="check its credentials and the account's rights",
            )
        topology = _read_topology(parsed(address, answer), address, self._name)
        count = len(self._brokers.keys() | topology.brokers.keys())
        places = sum(len(broker.addresses) for broker in topology.brokers.values())
        if count > _MOST_BROKERS or places > _MOST_ADDRESSES:
            raise ProtocolError(
                f"name server {address} names {places:,} addresses, and with those known before there are"
                f" {count:,} brokers: no cluster has as many"
            )
        for broker in topology.brokers.values():
            for place in broker.addresses.values():
                if not self._security.broker_hosts.allow(place):
                    raise NothingKnown(
                        f"name server {address} names broker {broker.name} at {place}, where broker_hosts allows"
                        " none: its answer is not used",
                        hint="if the broker is right, add its host to broker_hosts; if not, find out who answers",
                    )
        return self._reachable(topology)

    def _reachable(self, topology: Topology) -> Topology:
        """Its brokers where they are reached from here."""
        where = self._security.address_map
        brokers = {}
        for name, broker in topology.brokers.items():
            addresses = {i: where.reach(address) for i, address in broker.addresses.items()}
            brokers[name] = Broker(name, addresses)
            self._advertised.update((addresses[i], address) for i, address in broker.addresses.items())
        return Topology(topology.cluster, brokers)

    def reader(self, broker: str) -> Endpoint:
        """Where to read the queues of `broker`: its master, or a slave when the master is gone."""
        return self._endpoint(broker, self._broker(broker).readable)

    def slave(self, broker: str) -> Endpoint | None:
        """The slave of `broker` with the lowest id, while it has a master; None: it has no slave, or that alone."""
        addresses = self._broker(broker).addresses
        slaves = [i for i in addresses if i != _MASTER]
        return self._endpoint(broker, addresses[min(slaves)]) if slaves and _MASTER in addresses else None

    def is_master(self, broker: str, address: str) -> bool:
        return self._broker(broker).master == address

    def master(self, broker: str) -> Endpoint:
        """The listen port of the master of `broker`.

        Raises:
            Unreachable: it has no master now.
        """
        return self._endpoint(broker, self._master_address(broker))

    def _master_address(self, broker: str) -> str:
        address = self._broker(broker).master
        if address is None:
            raise Unreachable(broker, "the name servers know no master of it")
        return address

    def writer(self, broker: str) -> VipChannel:
        """Where to send to `broker`: the VIP port of its master.

        Raises:
            Unreachable: it has no master now, or one whose address is none.
        """
        address = self._master_address(broker)
        vip = self._vips.get((broker, address))
        if vip is None:
            vip = self._vips[broker, address] = VipChannel(
                self._endpoint(broker, address),
                self.vip_address(address),
                self._security,
                lambda reason: self._on_fallback(broker, reason),
                may_go_on=self._may_go_on,
                identify=partial(self._identify, broker, address),
            )
        return vip

    def vip_address(self, address: str) -> str:
        """Where the VIP port of the broker is reached whose listen port is reached at `address`.

        Two below it, unless the VIP port has an entry of its own in the address map; errors as `vip.vip_address`.
        """
        advertised = vip_address(self._advertised.get(address, address))
        return self._security.address_map.entries.get(advertised) or vip_address(address)

    def _broker(self, name: str) -> Broker:
        try:
            return self._brokers[name]
        except KeyError:
            raise Unreachable(name, "the name servers do not know it") from None

    def _endpoint(self, broker: str, address: str) -> Endpoint:
        endpoint = self._endpoints.get((broker, address))
        if endpoint is None:
            endpoint = self._endpoints[broker, address] = Endpoint(
                address,
                self._security,
                may_go_on=self._may_go_on,
                identify=partial(self._identify, broker, address),
                behind=broker if self.is_proxy else "",
            )
        return endpoint

    async def _identify(self, broker: str, address: str, connection: Connection) -> None:
        """Returns when `connection` leads to the member of `broker` that listens at `address`.

        An account that may not read the broker's configuration has to believe the name servers.

        Raises:
            WrongBroker: it leads elsewhere.
            Unreachable, RequestTimeout: see there.
        """
        known = self._brokers.get(broker)
        master = known is not None and known.master == address
        if await is_broker(connection, broker, self._known_as, master=master):
            return
        try:
            await self.refresh()
        except ReplicatorError as error:
            raise WrongBroker(connection.address, f"whether it is {broker} is not known: {error.message}") from None
        if self._brokers.get(broker) != known:
            raise WrongBroker(connection.address, f"the name servers now have {broker} at another address")

    def forget(self, broker: str) -> None:
        """No more waiting for the return of `broker`; it is known again when the name servers list it."""
        self._brokers.pop(broker, None)
        for known in (self._vips, self._endpoints):
            for place in [place for place in known if place[0] == broker]:
                known.pop(place).abandon()

    def drop(self) -> None:
        """Ends all connections to brokers, with all that was not yet delivered; others are made when needed."""
        for endpoint in (*self._vips.values(), *self._endpoints.values()):
            endpoint.drop()

    async def close(self) -> None:
        """Ends all connections."""
        for endpoint in (*self._vips.values(), *self._endpoints.values()):
            await endpoint.close()
        await self._nameservers.close()


def _read_topology(info: Any, address: str, name: str | None) -> Topology:
    try:
        clusters: dict[str, list[str]] = info["clusterAddrTable"] or {}
        table: dict[str, Any] = info["brokerAddrTable"] or {}
        names = sorted(cluster for cluster, brokers in clusters.items() if brokers)
        if name is None and len(names) == 1:
            name = names[0]
        if name is None or name not in names:
            # A cluster that is not there may be known to another name server; which of several is meant, to none.
            if not names:
                raise NoBrokers(f"no broker is registered at name server {address}", hint="start a broker there")
            error = StartupError if name is None else NothingKnown
            raise error(
                f"name server {address} knows the clusters: {', '.join(names)}",
                hint="choose one with the setting `cluster`",
            )
        brokers = {
            broker: Broker(broker, {as_long(i): str(a) for i, a in table[broker]["brokerAddrs"].items()})
            for broker in clusters[name]
            if broker in table and table[broker]["brokerAddrs"]
        }
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ProtocolError(f"name server {address} returned an unreadable list of brokers ({error!r})") from None
    if not brokers:
        raise NoBrokers(
            f"no broker of cluster {name} is registered at name server {address}", hint="start a broker there"
        )
    return Topology(name, brokers)
