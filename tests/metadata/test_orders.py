"""Order configurations at the target: what is written, what is only told, and that it comes to rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.metadata.action import DropOrder, WriteOrder
from replicator.metadata.ledger import DELETED, DRIFT, FOUND, REPAIRED, Entry, Key, Planned, remember
from replicator.metadata.orders import Orders, is_order, items_of, plan_orders, translated
from replicator.metadata.topics import TopicPolicy
from replicator.routing.plan import TopicPlan
from replicator.routing.queue_map import Queue, QueueMap

#: Two source brokers with four queues each, onto one target broker, and onto one each.
TOGETHER = {Queue(broker, i): Queue("x", i + 4 * (broker == "b")) for broker in "ab" for i in range(4)}
APART = {Queue(broker, i): Queue(other, i) for broker, other in ("ax", "by") for i in range(4)}

Tables = dict[str, dict[str, str]]


class Scene:
    """Topic T, copied to c_T; `source` and `target` are what name servers have."""

    def __init__(self, queue_map: QueueMap = APART) -> None:
        self.source: Tables = {"s:1": {"T": "a:4;b:4"}}
        self.target: Tables = {"n:1": {}, "n:2": {}}
        self.ledger: dict[Key, Entry] = {}
        self.plans = [TopicPlan(topic="T", target_topic="c_T", queue_map=queue_map)]
        self.silent: set[str] = set()
        self.away: set[str] = set()

    def plan(self, **policy: bool) -> Planned:
        there = {address: orders for address, orders in self.target.items() if address not in self.away}
        return plan_orders(
            self.plans,
            self.source,
            there,
            self.ledger,
            silent=self.silent,
            selects=lambda topic: topic != "left",
            policy=TopicPolicy(**policy),
        )

    def sync(self, **policy: bool) -> dict[str, str]:
        """Carries out what is planned; why the rest is not, by name server."""
        planned, written = self.plan(**policy), set()
        for action in planned.actions:
            if action.blocked:
                continue
            written.add((action.broker, action.key))
            match action.write:
                case WriteOrder(topic, queues):
                    self.target[action.broker][topic] = queues
                case DropOrder(topic):
                    del self.target[action.broker][topic]
        answered = self.target.keys() - self.away
        current = items_of({address: self.target[address] for address in answered})
        news = remember(planned, current, self.ledger, written=written, answered=answered)
        self.ledger = {key: each for key, each in (self.ledger | news).items() if each is not None}
        return {action.broker: action.blocked for action in planned.actions if action.blocked}

    @property
    def found(self) -> dict[str, str | None]:
        return {address: orders.get("c_T") for address, orders in self.target.items()}


@pytest.mark.parametrize(
    ("ours", "queue_map", "wanted"),
    [
        ("a:4;b:4", APART, "x:4;y:4"),
        ("b:4;a:4", APART, "y:4;x:4"),
        (" a:4 ;b:3; ", APART, "x:4;y:3"),
        ("a:4;b:4", TOGETHER, "x:8"),
        ("a:4;b:2", TOGETHER, "x:6"),
        ("a:2", APART, "x:2"),
        ("a:4;b:0", APART, "x:4"),
        ("a:16;b:4", APART, "x:4;y:4"),
    ],
)
def test_by_where_the_queues_are_copied(ours: str, queue_map: QueueMap, wanted: str) -> None:
    """In the order in which producers count the queues at the source."""
    assert translated(ours, queue_map) == (wanted, "")


@pytest.mark.parametrize(
    "ours",
    [
        *("nonsense", "a:", ":4", "a:²", "a:0", "a:-1", ";"),
        pytest.param("a:" + "9" * 5000, id="more than Python reads"),
    ],
)
def test_one_that_names_no_queues(ours: str) -> None:
    wanted, why = translated(ours, APART)
    assert (wanted, "names no queues" in why) == ("", True)


def test_a_broker_of_which_nothing_is_copied() -> None:
    """A worker may not know it yet: a configuration without it would leave its queues without messages."""
    wanted, why = translated("a:4;gone:4;away:4;none:0", APART)
    assert wanted == "x:4"
    assert "names gone, away, of which no queues are copied" in why
    scene = Scene()
    scene.sync()
    scene.source["s:1"]["T"] = "a:4;b:4;c:4"
    assert ["names c," in why for why in scene.sync().values()] == [True, True]
    assert scene.found == {"n:1": "x:4;y:4", "n:2": "x:4;y:4"}
    scene.plans = [TopicPlan(topic="T", target_topic="c_T", queue_map={**APART, Queue("c", 0): Queue("z", 0)})]
    assert scene.sync() == {}
    assert scene.found == {"n:1": "x:4;y:4;z:1", "n:2": "x:4;y:4;z:1"}


def test_every_name_server_has_it() -> None:
    """One that lacks it is given it, as after the loss of its disk; and one that was away gets what is new."""
    scene = Scene()
    scene.away = {"n:2"}
    assert scene.sync() == {}
    assert scene.found == {"n:1": "x:4;y:4", "n:2": None}
    scene.away = set()
    (action,) = scene.plan().actions
    assert (action.kind, action.verb, action.broker) == ("topics", "create", "n:2")
    assert action.shown()["name"] == "order configuration of c_T"
    assert (action.before, action.after) == (None, {"queues": "x:4;y:4"})
    scene.sync()
    scene.away = {"n:1"}
    scene.source["s:1"]["T"] = "a:2;b:2"
    scene.sync()
    scene.away = set()
    assert [each.verb for each in scene.plan().actions] == ["update"]
    assert scene.sync() == {}
    assert scene.found == {"n:1": "x:2;y:2", "n:2": "x:2;y:2"}
    del scene.target["n:1"]["c_T"]
    assert scene.sync() == {}
    assert scene.found == {"n:1": "x:2;y:2", "n:2": "x:2;y:2"}
    assert scene.plan().actions == []


@pytest.mark.parametrize("known", [False, True])
def test_another_one_at_the_target(known: bool) -> None:
    """Changed there, or there before: it is told, and put right with on_drift=repair; the other name server is not
    held up.
    """
    scene = Scene()
    if known:
        scene.sync()
    scene.target["n:1"]["c_T"] = "y:4;x:4"
    scene.source["s:1"]["T"] = "a:3;b:4"
    assert scene.sync() == {"n:1": DRIFT if known else FOUND}
    assert scene.found == {"n:1": "y:4;x:4", "n:2": "x:3;y:4"}
    assert [each.note for each in scene.plan(repair=True).actions] == [REPAIRED]
    assert scene.sync(repair=True) == {}
    assert scene.found == {"n:1": "x:3;y:4", "n:2": "x:3;y:4"}


def test_what_is_the_same_is_taken_over() -> None:
    """However it is written; from then on it follows the source."""
    scene = Scene()
    scene.target["n:1"]["c_T"] = "x:4; y:4;"
    assert [each.broker for each in scene.plan().actions] == ["n:2"]
    scene.sync()
    scene.source["s:1"]["T"] = "a:4"
    assert scene.sync() == {}
    assert scene.found == {"n:1": "x:4", "n:2": "x:4"}


def test_an_empty_one_is_none() -> None:
    """Clients take it for none, too."""
    scene = Scene()
    scene.target["n:1"]["c_T"] = ""
    assert scene.sync() == {}
    assert scene.found == {"n:1": "x:4;y:4", "n:2": "x:4;y:4"}


def test_what_was_changed_at_the_same_moment_is_told() -> None:
    """It was written, and another one was read: somebody else writes, too."""
    scene = Scene()
    planned = scene.plan()
    current = items_of({"n:1": {"c_T": "x:1"}, "n:2": {"c_T": "x:4;y:4"}})
    news = remember(planned, current, {}, written=planned.wanted, answered=["n:1", "n:2"])
    scene.ledger = {key: each for key, each in news.items() if each is not None}
    scene.target = {"n:1": {"c_T": "x:1"}, "n:2": {"c_T": "x:4;y:4"}}
    assert scene.sync() == {"n:1": DRIFT}


def test_name_servers_of_the_source_that_differ() -> None:
    """The first that has one decides, and it is told."""
    scene = Scene()
    scene.source = {"s:1": {}, "s:2": {"T": "a:4"}, "s:3": {"T": "b:4"}, "s:4": {"T": ""}}
    assert {each.note for each in scene.plan().actions} == {"the source's name servers have different ones"}
    scene.sync()
    assert scene.found == {"n:1": "x:4", "n:2": "x:4"}
    scene.source = {"s:1": {"T": "a:4"}, "s:2": {"T": "a:4;"}}
    assert scene.plan().actions == []


def test_what_the_source_has_deleted() -> None:
    """It is told, or deleted where we have written it, once all name servers of the source deny it."""
    scene = Scene()
    scene.target["n:1"]["theirs"] = "x:4"
    scene.sync()
    scene.source = {"s:1": {}, "s:2": {"T": ""}}
    scene.silent = {"s:2"}
    assert all("name server s:2 does not answer there" in why for why in scene.sync(deletes=True).values())
    scene.silent = set()
    assert scene.sync() == {"n:1": DELETED, "n:2": DELETED}
    (_, action) = scene.plan(deletes=True).actions
    assert (action.verb, action.before, action.after) == ("delete", {"queues": "x:4;y:4"}, None)
    assert scene.sync(deletes=True) == {}
    assert scene.target == {"n:1": {"theirs": "x:4"}, "n:2": {}}
    assert scene.ledger == {}


def test_what_somebody_has_changed_is_not_deleted() -> None:
    scene = Scene()
    scene.sync()
    scene.source, scene.target["n:1"]["c_T"] = {"s:1": {}}, "x:1"
    assert scene.sync(deletes=True) == {"n:1": DRIFT}
    assert scene.found == {"n:1": "x:1", "n:2": None}
    assert scene.sync(repair=True) == {"n:1": DELETED}
    assert [each.note for each in scene.plan(repair=True, deletes=True).actions] == [REPAIRED]
    assert scene.sync(repair=True, deletes=True) == {}
    assert scene.found == {"n:1": None, "n:2": None}


def test_what_name_servers_without_their_disks_deny_is_not_deleted() -> None:
    scene = Scene()
    scene.plans.append(TopicPlan(topic="U", target_topic="U", queue_map=APART))
    scene.source["s:1"]["U"] = "a:4"
    scene.sync()
    scene.source = {"s:1": {}}
    assert ["all 2 that were synced are gone" in why for why in scene.sync(deletes=True).values()] == [True, True]
    scene.source = {"s:1": {"U": "a:4"}}
    assert scene.sync(deletes=True) == {}
    assert scene.target == {"n:1": {"U": "x:4"}, "n:2": {"U": "x:4"}}


def test_a_name_that_another_topic_has_now() -> None:
    """Its former topic is gone at the source; what is there is of the one that is copied to it."""
    scene = Scene()
    entry = Entry({"queues": "x:4;y:4"}, {"queues": "x:4;y:4"}, "gone")
    scene.ledger = {(address, "order configuration of c_T"): entry for address in scene.target}
    scene.target = {address: {"c_T": "x:4;y:4"} for address in scene.target}
    assert scene.plan(deletes=True).actions == []
    scene.sync(deletes=True)
    assert {each.source for each in scene.ledger.values()} == {"T"}


def test_what_is_not_copied_is_left_alone() -> None:
    """What the route leaves out by now, such as a topic that was switched, and what has a problem."""
    scene = Scene()
    entry = Entry({"queues": "x:4"}, {"queues": "x:4"}, "left")
    scene.ledger = {("n:1", "order configuration of left"): entry, ("n:2", "order configuration of left"): entry}
    scene.target = {"n:1": {"left": "x:4"}, "n:2": {}}
    scene.plans = [TopicPlan(topic="T", target_topic="T", queue_map=APART, problem="it is refused")]
    assert scene.plan(deletes=True).actions == []
    scene.sync()
    assert scene.ledger == {("n:1", "order configuration of left"): entry}


def test_items_of_the_ledger() -> None:
    (key,) = items_of({"n:1": {"T": "a:4"}})
    assert is_order(key)
    assert not is_order(("n:1", "T"))


TABLES = st.dictionaries(
    st.sampled_from(["n:1", "n:2"]), st.dictionaries(st.just("c_T"), st.sampled_from(["x:4;y:4", "x:1", "", "?"]))
)


@given(TABLES, st.sampled_from(["a:4;b:4", "a:2", "", "?", "c:4"]), st.sampled_from([TOGETHER, APART]))
def test_it_comes_to_rest(target: Tables, ours: str, queue_map: QueueMap) -> None:
    """After one sync nothing is left to do; where all is allowed, all that the source's says is at the target."""
    scene = Scene(queue_map)
    scene.source["s:1"] = {"T": ours}
    scene.target = {address: dict(orders) for address, orders in target.items()}
    scene.sync()
    assert [each for each in scene.plan().actions if not each.blocked] == []
    allowed = {"repair": True, "deletes": True}
    scene.sync(**allowed)
    left: list[Orders] = [
        each for each in scene.target.values() if each.get("c_T") != translated(ours, queue_map)[0]
    ]
    assert not left or not ours or translated(ours, queue_map)[1]
    assert [each for each in scene.plan(**allowed).actions if not each.blocked] == []
