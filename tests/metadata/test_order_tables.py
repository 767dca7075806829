"""Order configurations refreshed with topics, from name servers some of which do not answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from replicator.client.cluster import Cluster
from replicator.client.order import OrderTables
from replicator.client.topics import TopicConfig
from replicator.errors import Unreachable
from replicator.metadata import syncer as under_test
from replicator.metadata.groups import GroupSelector
from replicator.metadata.ledger import Entry, Key
from replicator.metadata.options import SyncOptions
from replicator.metadata.order_tables import NameServerOrders
from replicator.metadata.orders import is_order
from replicator.metadata.syncer import Applied, ReplicationSnapshot, Syncer
from replicator.metadata.topics import TopicPolicy
from replicator.routing.options import Identity
from replicator.routing.plan import TopicPlan
from replicator.routing.queue_map import Queue
from tests.metadata.test_syncer import Side, has_foreign_messages

TOPIC = TopicConfig(name="T", read_queues=1, write_queues=1)


class Guarded(Side):
    """A cluster whose brokers, and whose name servers in `refusing`, take nothing."""

    refusing: frozenset[str] = frozenset()

    def __init__(self, *brokers: str) -> None:
        super().__init__(*brokers)
        for broker in brokers:
            self.topics[broker]["T"] = TOPIC

    def writer(self, broker: str) -> Any:
        raise Unreachable(broker, "away")

    async def write_order(self, address: str, topic: str, value: str) -> None:
        self._at(address)[topic] = value

    async def delete_order(self, address: str, topic: str) -> None:
        self._at(address).pop(topic, None)

    def _at(self, address: str) -> dict[str, str]:
        orders = self.orders_at.get(address)
        if orders is None or address in self.refusing:
            raise Unreachable(address, "away")
        return orders


class Scene:
    """A route that copies T from `a` to `x`, which has two name servers."""

    def __init__(self) -> None:
        self.source, self.target = Guarded("a"), Guarded("x")
        self.source.orders_at = {"s:1": {"T": "a:1"}, "s:2": {"T": "a:1"}}
        self.target.orders_at = {"n:1": {}, "n:2": {}}
        self.plans = [TopicPlan(topic="T", target_topic="T", queue_map={Queue("a", 0): Queue("x", 0)})]
        self.ledger: dict[Key, Entry] = {}
        self.restart()

    def restart(self) -> None:
        options = SyncOptions(identity=Identity("s", "t"), selector=GroupSelector.of([".*"], []), deletes=True)
        self.syncer = Syncer(cast("Cluster", self.source), cast("Cluster", self.target), options)

    @property
    def copy(self) -> ReplicationSnapshot:
        return ReplicationSnapshot(self.plans, lambda *_: None, {"T": {"a"}}, lambda _: {"x"}, lambda _: True)

    async def sync(self) -> list[Applied]:
        planned = await self.syncer.plan_topics(self.copy, self.ledger)
        done = [await self.syncer.apply(action) for action in planned.actions if not action.blocked]
        await self._learn(planned, done)
        return done

    async def _learn(self, planned: Any, done: list[Applied]) -> None:
        news = await self.syncer.remember_topics(planned, self.ledger, done)
        self.ledger = {key: each for key, each in (self.ledger | news).items() if each is not None}

    async def switch(self) -> None:
        await self._learn(await self.syncer.plan_switch(self.copy, open_all=False), [])

    @property
    def known(self) -> set[str]:
        """The name servers that the ledger knows to have been written to."""
        return {key[0] for key in self.ledger if is_order(key)}


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_they_are_synced_with_topics(scene: Scene) -> None:
    """In one plan and one ledger; what is not taken holds up nothing else, and is tried again."""
    scene.source.topics["a"]["T"] = TopicConfig(name="T", read_queues=1, write_queues=1, order=True)
    scene.target.refusing = frozenset({"n:2"})
    done = [each.shown() for each in await scene.sync()]
    assert [(each["name"], each["broker"]) for each in done] == [
        ("T", "x"),
        ("order configuration of T", "n:1"),
        ("order configuration of T", "n:2"),
    ]
    assert ["away" in each["error"] for each in done] == [True, False, True]
    assert (scene.target.orders_at, scene.known) == ({"n:1": {"T": "x:1"}, "n:2": {}}, {"n:1"})
    scene.target.refusing = frozenset()
    await scene.sync()
    assert (scene.target.orders_at["n:2"], scene.known) == ({"T": "x:1"}, {"n:1", "n:2"})
    scene.source.orders_at = {"s:1": {}, "s:2": {}}
    await scene.sync()
    assert (scene.target.orders_at, scene.known) == ({"n:1": {}, "n:2": {}}, set())


async def test_what_is_read_again_after_it_was_written(scene: Scene) -> None:
    """What the ledger knows is what the target has, not what it was told to have."""
    planned = await scene.syncer.plan_topics(scene.copy, {})
    done = [await scene.syncer.apply(each) for each in planned.actions if is_order((each.broker, each.key))]
    scene.target.orders_at["n:1"] = {"T": "x:7"}
    news = await scene.syncer.remember_topics(planned, {}, done)
    entry = news["n:1", "order configuration of T"]
    assert entry is not None
    assert (entry.wanted, entry.got, entry.source) == ({"queues": "x:1"}, {"queues": "x:7"}, "T")


async def test_a_switch_forgets_nothing_of_what_was_written(scene: Scene) -> None:
    """Nor does a worker that has looked before another one wrote it."""
    await scene.syncer.plan_topics(scene.copy, {})
    looked, target = scene.syncer, scene.target.orders_at
    scene.restart()
    await scene.sync()
    assert scene.known == {"n:1", "n:2"}
    scene.syncer = looked
    await scene.switch()
    assert scene.known == {"n:1", "n:2"}
    assert target == {"n:1": {"T": "x:1"}, "n:2": {"T": "x:1"}}


async def test_a_source_that_does_not_answer_is_what_it_was_last(scene: Scene) -> None:
    """It has deleted nothing by that; nor for a worker that has just started, which says that it does not know."""
    await scene.sync()
    scene.source.orders_at = {"s:1": {}, "s:2": None}
    assert (await scene.syncer.plan_topics(scene.copy, scene.ledger)).actions == []
    assert scene.syncer.failures == {}, "the other one may answer"
    scene.restart()
    planned = await scene.syncer.plan_topics(scene.copy, scene.ledger)
    assert ["name server s:2 does not answer" in each.blocked for each in planned.actions] == [True, True]
    scene.source.orders_at = {"s:1": None, "s:2": None}
    await scene.syncer.plan_topics(scene.copy, scene.ledger)
    assert scene.syncer.failures == {"s:1": "away", "s:2": "away"}
    scene.source.orders_at = {"s:1": {}, "s:2": {}}
    assert len(await scene.sync()) == 2


async def test_a_target_that_does_not_answer_matters_where_it_lacks_something(scene: Scene) -> None:
    """What was written there is remembered."""
    scene.source.orders_at = {"s:1": {"other": "a:1"}}
    scene.target.orders_at = {"n:1": {}, "n:2": None}
    await scene.sync()
    assert scene.syncer.failures == {}
    scene.source.orders_at = {"s:1": {"T": "a:1"}}
    await scene.sync()
    assert (scene.syncer.failures, scene.known) == ({"n:2": "away"}, {"n:1"})
    scene.target.orders_at = {"n:1": None, "n:2": None}
    await scene.sync()
    assert (scene.syncer.failures, scene.known) == ({"n:1": "away", "n:2": "away"}, {"n:1"})
    scene.source.orders_at = {"s:1": {}}
    await scene.sync()
    assert scene.syncer.failures == {"n:1": "away", "n:2": "away"}, "it may have to be deleted there"


async def test_what_is_left_of_another_topic_keeps_none(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two topics that are gone at once look like a lost disk; one of them, and an order configuration, do not."""
    monkeypatch.setattr(under_test, "has_foreign_messages", has_foreign_messages)
    await scene.sync()
    scene.ledger["x", "T"] = Entry({}, {}, "T")
    scene.ledger["n:1", "order configuration of U"] = Entry({"queues": "x:1"}, {"queues": "x:1"}, "U")
    scene.source.topics["a"].clear()
    scene.plans.clear()
    copy = replace(scene.copy, brokers={"T": {"a"}, "U": {"a"}})
    actions = (await scene.syncer.plan_topics(copy, scene.ledger)).actions
    assert [(each.key, each.verb, each.blocked) for each in actions] == [("T", "delete", "")]


async def test_an_address_server_that_does_not_answer() -> None:
    """Which name servers there are is not known then."""

    class Unknown(Side):
        @property
        def addresses(self) -> list[str]:
            return ["http://addresses"]

        async def orders(self) -> OrderTables:
            raise Unreachable("http://addresses", "away")

    orders = NameServerOrders(cast("Cluster", Unknown()), cast("Cluster", Side()))
    await orders.refresh()
    assert orders.plan([], {}, selects=lambda _: True, policy=TopicPolicy()) == ([], {})
    assert orders.failures == {"http://addresses": "http://addresses cannot be reached (away)"}
