"""A cluster of which nothing but a Proxy's remoting port is reached: no name server, and no broker's address.

A Proxy answers for the routes of topics that are named (105), and passes on, to the broker that a request names,
pulls (11), the ends of queues (30, 31), offsets by time (29), and offsets of groups (14, 15). All else it refuses:
there is no list of topics or groups, no setting of a broker, and nothing is created (measured on 5.3.3 and 5.5.0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

from replicator.aio.bounded import bounded
from replicator.aio.clock import now
from replicator.client.brokers import DEFAULT_MAX_MESSAGE, BrokerConfig
from replicator.client.cluster import Broker, Cluster, Topology
from replicator.client.connection import Connection
from replicator.client.endpoint import REQUEST_TIMEOUT, Endpoint
from replicator.client.nameservers import NoBrokers, NotServed
from replicator.client.offsets import OffsetTable, query_offset
from replicator.client.refused import code_in, remark_in
from replicator.client.security import Security
from replicator.client.topics import TopicConfig, TopicTable
from replicator.errors import BrokerRefused, ProtocolError, StartupError, WrongBroker
from replicator.observe.logging import get_logger
from replicator.protocol import fastjson
from replicator.protocol.codes import Request, Response
from replicator.protocol.frame import Frame
from replicator.protocol.numbers import as_long

__all__ = ["ProxyCluster"]

#: Requests under way at a time: routes, and offsets of groups.
_AT_ONCE: Final = 16

#: What a Proxy says of each broker that has a topic, by the broker's name: its cluster, and the topic there.
_Route = Mapping[str, tuple[str, TopicConfig]]

log = get_logger(__name__)


class _Answer(NamedTuple):
    """The Proxy that has answered, and the route of a topic; or why none gives it."""

    address: str
    route: _Route
    refusal: NotServed | None = None


class ProxyCluster(Cluster):
    """The brokers that have certain topics; each is reached at the Proxy that answers, at no address of its own.

    Where a Proxy says that it is itself is of no use: it may be behind a gateway. It is reached as it was given.

    Args:
        proxies: their remoting ports, `host:port`; any of them serves all brokers.
        topics: the first topics that are asked for; see `name_topics`.
    """

    is_proxy = True
    asked = "Proxy"

    def __init__(
        self,
        proxies: Sequence[str],
        topics: Iterable[str],
        *,
        security: Security | None = None,
        name: str | None = None,
        may_go_on: Callable[[], bool] | None = None,
    ) -> None:
        super().__init__(proxies, security=security, name=name, may_go_on=may_go_on)
        self._topics = dict.fromkeys(topics)
        #: Per topic what was known last; of one that has no route now, too: its brokers may all be away.
        self._routes: dict[str, _Route] = {}
        self._is_proxy = False
        #: Topics whose routes were refused at the last look.
        self._refused: frozenset[str] = frozenset()

    def name_topics(self, topics: Iterable[str]) -> None:
        self._topics |= dict.fromkeys(topics)

    async def refresh(self) -> Topology:
        """Asks for the routes of all topics that were named (105).

        Raises:
            Unreachable: no Proxy answered.
            NoBrokers: no broker has any of the topics, or those that have are all away.
            StartupError: it is a name server, or it is not clear which cluster is meant.
        """
        if not self._is_proxy:
            await self._refuse_nameserver()
            self._is_proxy = True
        self._looks += 1
        look, names = self._looks, list(self._topics)
        answers = await bounded(self._try, names, at_once=_AT_ONCE)
        found = {name: answer.route for name, answer in zip(names, answers, strict=True) if answer.route}
        refused = {name: error for name, (_, _, error) in zip(names, answers, strict=True) if error is not None}
        if not found:
            raise next(iter(refused.values()), None) or NoBrokers(
                f"the Proxy {','.join(self.addresses)} knows no broker that has {_listed(names)}",
                hint="correct --topics, create the topics, or let the account read them",
            )
        self._tell(refused)
        address = next(answer.address for answer in reversed(answers) if answer.route)
        cluster = self._chosen(found)
        brokers = {
            broker: Broker(broker, {0: address})
            for broker, (its_cluster, _) in chain.from_iterable(route.items() for route in found.values())
            if its_cluster == cluster
        }
        if look > self._known_since:  # else who was asked later has answered sooner
            self._known_since = look
            self._routes |= found
            self._known_as = cluster
            away = {name: Broker(name, {0: address}) for name in self._brokers}
            self._brokers.update(away | brokers)
        return Topology(cluster, brokers)

    async def _refuse_nameserver(self) -> None:
        address, answer = await self._nameservers.invoke(Request.GET_BROKER_CLUSTER_INFO, {})
        if answer.code == Response.SUCCESS:
            raise StartupError(
                f"{address} is a name server, not a Proxy",
                hint="leave the setting `proxy` out: its brokers are asked",
            )

    def _tell(self, refused: Mapping[str, NotServed]) -> None:
        """A topic whose route is refused holds up no other; that is logged once."""
        for topic, error in refused.items():
            if topic not in self._refused:
                log.warning(
                    "a topic's route is refused: what the topic has now is not known",
                    topic=topic,
                    reason=str(error),
                )
        self._refused = frozenset(refused)

    async def _try(self, topic: str) -> _Answer:
        try:
            return await self._ask(topic)
        except NotServed as error:
            return _Answer("", {}, error)

    async def _ask(self, topic: str) -> _Answer:
        """The Proxy that has answered, and the route of a topic; of one that nobody has an empty one.

        Raises:
            NotServed: none gives it.
            Unreachable: none answers.
        """
        # Where fields are not quoted as JSON has it, only fastjson reads them.
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        return await self._nameservers.read(Request.GET_ROUTEINFO_BY_TOPIC, fields, partial(_read, topic))

    def _chosen(self, found: Mapping[str, _Route]) -> str:
        clusters = sorted({cluster for route in found.values() for cluster, _ in route.values()})
        if self._name in clusters:
            return self._name
        if self._name is None and len(clusters) == 1:
            return clusters[0]
        raise StartupError(
            f"the topics are in the clusters: {', '.join(clusters)}", hint="choose one with the setting `cluster`"
        )

    # What else is asked of brokers.

    async def read_topics(self, broker: Endpoint, *, known: TopicTable | None = None) -> TopicTable:
        """The topics that were named, as far as `broker` has them. Their attributes are not known."""
        topics = {name: route[broker.behind][1] for name, route in self._routes.items() if broker.behind in route}
        return known if known is not None and known.topics == topics else TopicTable(topics, ())

    async def read_config(self, broker: Endpoint) -> BrokerConfig:
        """What it would say of itself; only what a message may have is not known, which matters to targets."""
        return BrokerConfig(DEFAULT_MAX_MESSAGE, name=broker.behind, cluster=self.known_as)

    async def read_offsets(
        self,
        broker: Endpoint,
        *,
        known: OffsetTable | None = None,
        groups: Iterable[str] = (),
        beside: Iterable[tuple[str, str]] = (),
    ) -> OffsetTable:
        """The offsets that are asked for, one by one."""
        topics = (await self.read_topics(broker)).topics
        offsets = await _offsets(broker, [(group, config) for group in groups for config in topics.values()])
        unread = ""
        for group, topic in beside:
            try:
                route = (await self._ask(topic)).route
                offsets |= await _offsets(
                    broker, [(group, route[broker.behind][1])] if broker.behind in route else []
                )
            except (BrokerRefused, StartupError) as error:  # of a system topic, which the account may not read
                unread = error.message
        table = OffsetTable(offsets, b"", unread)
        return known if table == known else table

    def shows_all(self, broker: str, address: str) -> bool:
        """Never: a topic that has no route was deleted, or its broker is away."""
        return False

    async def _identify(self, broker: str, address: str, connection: Connection) -> None:
        """Returns when `connection` leads to a Proxy of this cluster; which broker is meant, each request says.

        Raises:
            WrongBroker: it is of another cluster.
            Unreachable, RequestTimeout: see there.
        """
        topic = next((name for name, route in self._routes.items() if broker in route), next(iter(self._topics)))
        asked, fields = now(), {"topic": topic, "acceptStandardJsonOnly": "true"}
        answer = await connection.invoke(Request.GET_ROUTEINFO_BY_TOPIC, fields, timeout=REQUEST_TIMEOUT)
        connection.line.measured(now() - asked)
        if answer.code != Response.SUCCESS:
            return  # the topic was deleted, or its brokers are away
        clusters = {cluster for cluster, _ in _route(topic, connection.address, answer).values()}
        if self.known_as not in clusters:
            raise WrongBroker(
                address, f"a Proxy of cluster {', '.join(sorted(clusters))} answers there, not of {self.known_as}"
            )


async def _offsets(
    broker: Endpoint, held: Iterable[tuple[str, TopicConfig]]
) -> dict[tuple[str, str], dict[int, int]]:
    """Those that each group has in each queue of its topic."""
    places = [(group, config.name, queue_id) for group, config in held for queue_id in range(config.queues)]
    found = await bounded(lambda place: query_offset(broker, *place), places, at_once=_AT_ONCE)
    offsets: dict[tuple[str, str], dict[int, int]] = {}
    for (group, topic, queue_id), offset in zip(places, found, strict=True):
        if offset is not None:
            offsets.setdefault((group, topic), {})[queue_id] = offset
    return offsets


def _listed(names: Sequence[str]) -> str:
    return f"topic {names[0]}" if len(names) == 1 else f"any of the topics {', '.join(names)}"


def _read(topic: str, address: str, answer: Frame) -> _Answer:
    if answer.code == Response.TOPIC_NOT_EXIST:
        return _Answer(address, {})
    if answer.code != Response.SUCCESS:
        raise NotServed(
            f"{address} refused the route of topic {topic}: {code_in(answer)}, {remark_in(answer) or 'no remark'}",
            hint="check its credentials and the account's rights",
        )
    return _Answer(address, _route(topic, address, answer))


def _route(topic: str, address: str, answer: Frame) -> _Route:
    try:
        route = fastjson.parse(answer.body)
        clusters = {str(each["brokerName"]): str(each["cluster"]) for each in route["brokerDatas"] or ()}
        mapped = route.get("topicQueueMappingByBroker") or {}
        return {
            broker: (clusters[broker], _config(topic, each, static=broker in mapped))
            for each in route["queueDatas"] or ()
            if (broker := str(each["brokerName"])) in clusters
        }
    except (ProtocolError, LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ProtocolError(f"{address} returned an unreadable route of topic {topic} ({error!r})") from None


def _config(topic: str, queues: Mapping[str, Any], *, static: bool) -> TopicConfig:
    return TopicConfig(
        name=topic,
        read_queues=as_long(queues["readQueueNums"]),
        write_queues=as_long(queues["writeQueueNums"]),
        perm=as_long(queues["perm"]),
        sys_flag=as_long(queues.get("topicSysFlag") or 0),
        static=static,
    )
