"""Both cluster metadata refreshed, some brokers of which do not answer: what is not known is not acted upon."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from replicator.aio.clock import now
from replicator.client.cluster import Cluster
from replicator.client.groups import GroupTable
from replicator.client.offsets import OffsetTable
from replicator.client.order import OrderTables
from replicator.client.topics import TopicConfig, TopicTable
from replicator.errors import BrokerRefused, RequestTimeout, Unreachable
from replicator.metadata import group_positions, target_consumers
from replicator.metadata import syncer as under_test
from replicator.metadata.action import Action, Commit, DropGroup
from replicator.metadata.groups import GroupSelector
from replicator.metadata.ledger import DRIFT, FOREIGN, JUST_IDLE, OTHERS, Entry, Key, Ledger, Planned
from replicator.metadata.offsets import CopiedQueue, GroupQueue
from replicator.metadata.options import SyncOptions
from replicator.metadata.syncer import ReplicationSnapshot, Syncer
from replicator.routing.offset_map import OffsetMap
from replicator.routing.options import Identity
from replicator.routing.plan import TopicPlan
from replicator.routing.queue_map import Queue


class Side:
    """A cluster whose brokers have `topics` and `groups`; those in `slaves` are read at a slave, those in `away`
    do not answer. `consuming` are groups with consumers, `foreign` topics in which others have written.
    """

    account = known_as = ""
    is_proxy = False

    def __init__(self, *brokers: str) -> None:
        self.topics: dict[str, dict[str, TopicConfig]] = {broker: {} for broker in brokers}
        self.groups: dict[str, dict[str, Mapping[str, Any]]] = {broker: {} for broker in brokers}
        self.slaves: set[str] = set()
        self.away: set[str] = set()
        self.consuming: set[str] = set()
        self.bans: dict[str, frozenset[str]] = {}
        self.foreign: set[str] = set()
        self.offsets: dict[tuple[str, str], dict[int, int]] = {}
        #: By name server: what it has of order configurations; None while it does not answer.
        self.orders_at: dict[str, dict[str, str] | None] = {"n:1": {}}

    @property
    def addresses(self) -> list[str]:
        return [*self.orders_at]

    async def refresh(self) -> None:
        if all(each is None for each in self.orders_at.values()):
            raise Unreachable("n:1", "away")

    async def orders(self) -> OrderTables:
        answers = {address: dict(each) for address, each in self.orders_at.items() if each is not None}
        return OrderTables(answers, dict.fromkeys(self.orders_at.keys() - answers, "away"))

    def brokers(self) -> Mapping[str, object]:
        return dict.fromkeys(self.topics)

    def reader(self, broker: str) -> Any:
        address = f"{broker}-{broker in self.slaves}"
        return SimpleNamespace(side=self, name=broker, address=address, refuse_pause=lambda: None)

    master = reader

    def is_master(self, broker: str, address: str) -> bool:
        return address == f"{broker}-False"

    async def read_topics(self, broker: Any, *, known: TopicTable | None) -> TopicTable:
        return await read_topics(broker, known=known)

    async def read_offsets(self, broker: Any, *, known: OffsetTable | None, **_more: object) -> OffsetTable:
        read: Any = getattr(group_positions, "read_offsets")  # noqa: B009 - which tests replace there
        return cast("OffsetTable", await read(broker, known=known))


async def read_topics(broker: Any, *, known: TopicTable | None) -> TopicTable:
    if broker.name in broker.side.away:
        raise Unreachable(broker.name, "away")
    return TopicTable(dict(broker.side.topics[broker.name]), ())


async def read_groups(broker: Any, *, known: GroupTable | None) -> GroupTable:
    if broker.name in broker.side.away:
        raise Unreachable(broker.name, "away")
    return GroupTable(dict(broker.side.groups[broker.name]), broker.side.bans, (), {})


async def read_offsets(broker: Any) -> OffsetTable:
    return OffsetTable(broker.side.offsets, b"")


async def consumers(broker: Any, group: str) -> list[str]:
    return ["somebody"] if group in broker.side.consuming else []


async def has_foreign_messages(broker: Any, topic: str, queues: range, *, source: str) -> bool:
    assert (queues, source) == (range(1), "s")
    return topic in broker.side.foreign


def copying(plans: Sequence[TopicPlan], brokers: Mapping[str, Collection[str]]) -> ReplicationSnapshot:
    """A route that has made no topic at the target, and copied nothing yet."""
    return ReplicationSnapshot(
        plans, lambda _topic, _queue: None, brokers, lambda _: (), lambda topic: topic != "switched"
    )


class Setup:
    """A target with topic U and group G, both of source broker `b`, which have been synced; `a` has neither."""

    def __init__(self) -> None:
        self.source, self.target = Side("a", "b"), Side("x", "y")
        self.target.topics["x"]["U"] = TopicConfig(name="U", read_queues=1, write_queues=1)
        for broker in ("x", "y"):
            self.target.groups[broker]["G"] = {"groupName": "G"}
        self.copied = {"U": {"b"}}
        self.restart()

    def restart(self) -> None:
        """A worker begins; it knows what the group knows."""
        options = SyncOptions(identity=Identity("s", "t"), selector=GroupSelector.of([".*"], []), deletes=True)
        self.syncer = Syncer(cast("Cluster", self.source), cast("Cluster", self.target), options)

    async def learnt(self, ledger: Ledger) -> dict[Key, Entry | None]:
        """What a look at topics that finds nothing to do makes of the ledger."""
        planned = await self.syncer.plan_topics(copying((), self.copied), ledger)
        return await self.syncer.remember_topics(planned, ledger, [])

    async def deletions(self) -> dict[str, set[str]]:
        """Why what is not deleted is not, by kind."""
        copy = copying((), self.copied)
        entry = Entry({}, {}, "U")
        topics: Ledger = {("x", "U"): entry}
        groups: Ledger = {(broker, "G"): entry._replace(source="G") for broker in ("x", "y")}
        found = [*(await self.syncer.plan_topics(copy, topics)).actions]
        found += (await self.syncer.plan_groups(copy, groups)).actions
        assert {action.verb for action in found} <= {"delete"}
        return {action.kind: {each.blocked for each in found if each.kind == action.kind} for action in found}


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch) -> Setup:
    for fake in (read_groups, read_offsets, has_foreign_messages):
        monkeypatch.setattr(under_test, fake.__name__, fake)
    monkeypatch.setattr(target_consumers, "consumers", consumers)
    monkeypatch.setattr(under_test, "_QUIET", 0.0)
    return Setup()


async def test_what_all_masters_deny_is_deleted(setup: Setup) -> None:
    assert await setup.deletions() == {"topics": {""}, "groups": {""}}


async def test_a_topic_in_which_others_have_written_is_not_deleted(setup: Setup) -> None:
    setup.target.foreign = {"U"}
    assert (await setup.deletions())["topics"] == {FOREIGN}


async def test_a_topic_that_cannot_be_read_holds_up_no_other(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*_: object, **__: object) -> bool:
        raise BrokerRefused("x", 11, 16, "the topic cannot be read")

    monkeypatch.setattr(under_test, "has_foreign_messages", refused)
    (reason,) = (await setup.deletions())["topics"]
    assert "it cannot be read here" in reason


async def test_a_topic_that_was_switched_stays_when_the_source_deletes_it(setup: Setup) -> None:
    """It is the target's own by now; nor is it told about."""
    planned = await setup.syncer.plan_topics(
        copying((), {"switched": {"b"}}), {("x", "U"): Entry({}, {}, "switched")}
    )
    assert planned.actions == []


@pytest.mark.parametrize("how", ["does not answer", "is read at its slave", "is unknown to the name servers"])
async def test_a_broker_that_is_away_may_have_it(setup: Setup, how: str) -> None:
    """Also to a worker that has just started, and has seen neither the broker nor what it had."""
    if how == "does not answer":
        setup.source.away = {"b"}
    elif how == "is read at its slave":
        setup.source.slaves = {"b"}
    else:
        del setup.source.topics["b"], setup.source.groups["b"]
    setup.restart()
    for reasons in (await setup.deletions()).values():
        (reason,) = reasons
        assert "no master of b answers" in reason


async def test_a_topic_of_other_brokers_is_deleted_all_the_same(setup: Setup) -> None:
    """A source broker that was taken away for good holds up only what it had, and groups, which may be anywhere."""
    setup.copied = {"U": {"a"}, "V": {"b"}}
    del setup.source.topics["b"], setup.source.groups["b"]
    found = await setup.deletions()
    assert found["topics"] == {""}
    assert "no master of b answers" in "".join(found["groups"])


async def test_a_topic_of_unknown_brokers_may_be_anywhere(setup: Setup) -> None:
    setup.copied = {"V": {"b"}}
    del setup.source.topics["b"], setup.source.groups["b"]
    assert "no master of b answers" in "".join((await setup.deletions())["topics"])
    setup.copied = {}
    assert "no master of its brokers answers" in "".join((await setup.deletions())["topics"])


async def test_a_group_with_consumers_is_not_deleted(setup: Setup) -> None:
    setup.target.consuming = {"G"}
    found = await setup.deletions()
    assert found["topics"] == {""}
    assert "has consumers here" in "".join(found["groups"])


async def test_what_was_written_is_remembered_while_its_broker_is_away(setup: Setup) -> None:
    """Or what somebody changes there meanwhile would not be told from what was never written."""
    ledger = {("x", "U"): Entry({}, {}, "U"), ("y", "gone"): Entry({}, {}, "gone")}
    setup.target.away = {"x", "y"}
    assert await setup.learnt(ledger) == {}
    setup.target.away = set()
    assert await setup.learnt(ledger) == {("y", "gone"): None}


async def test_a_ban_is_lifted_once_all_masters_deny_it(setup: Setup) -> None:
    """A broker that has it may be away, or not be known yet."""
    setup.source.groups["a"]["G"] = {"groupName": "G"}
    setup.target.bans = {"G": frozenset({"U"})}
    copy = ReplicationSnapshot(
        [TopicPlan(topic="U", target_topic="U", queue_map={})],
        lambda _topic, _queue: None,
        setup.copied,
        lambda _: (),
        lambda _: True,
    )
    entry = Entry({"allowed": False}, {"allowed": False}, "G")
    ledger = {(broker, "G reads U"): entry for broker in ("x", "y")}
    found = (await setup.syncer.plan_groups(copy, ledger)).actions
    assert [(each.key, each.blocked) for each in found] == [("G reads U", ""), ("G reads U", "")]
    del setup.source.topics["b"], setup.source.groups["b"]
    found = (await setup.syncer.plan_groups(copy, ledger)).actions
    assert ["no master of b answers" in each.blocked for each in found] == [True, True]
    assert await setup.syncer.remember_groups(Planned(found, {}), ledger, []) == {}
    found = (await setup.syncer.plan_groups(copy, {})).actions
    assert [each.blocked for each in found] == [DRIFT, DRIFT]


async def test_a_read_only_topic_of_a_broker_that_is_away(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits, and holds up no other; the broker is asked once, not for each topic."""
    asked = []

    async def max_offset(broker: Any, topic: str, _queue: int) -> int:
        asked.append((broker.name, topic))
        raise Unreachable(broker.name, "away")

    monkeypatch.setattr(under_test, "max_offset", max_offset)
    names = ("R", "S", "T")
    for name in names:
        setup.source.topics["b"][name] = TopicConfig(name=name, read_queues=1, write_queues=1, perm=4)
        setup.target.topics["x"][name] = TopicConfig(name=name, read_queues=1, write_queues=1, order=name == "T")
    queue_map = {Queue("b", 0): Queue("x", 0)}
    plans = [TopicPlan(topic=name, target_topic=name, queue_map=queue_map) for name in names]
    copy = ReplicationSnapshot(plans, lambda _topic, _queue: None, setup.copied, lambda _: {"x"}, lambda _: True)
    found = {(each.key, each.blocked) for each in (await setup.syncer.plan_topics(copy, {})).actions}
    waiting = {key for key, why in found if "cannot report now" in why}
    assert (waiting, {key for key, why in found if not why}) == ({*names}, {"T"})
    assert asked == [("b", "R")]
    assert "away" in setup.syncer.failures["b"]
    setup.source.away = {"b"}  # it is known to be away by now
    assert len((await setup.syncer.plan_topics(copy, {})).actions) == 4
    assert asked == [("b", "R")]


async def test_what_is_known_of_topics_that_are_gone_is_forgotten(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be thousands of those that come and go, over the years."""

    async def max_offset(*_: object) -> int:
        return 5

    monkeypatch.setattr(under_test, "max_offset", max_offset)
    setup.source.topics["b"]["R"] = TopicConfig(name="R", read_queues=1, write_queues=1, perm=4)
    plans = [TopicPlan(topic="R", target_topic="R", queue_map={Queue("b", 0): Queue("x", 0)})]
    await setup.syncer.plan_topics(copying(plans, setup.copied), {})
    assert setup.syncer._ends.keys() == {"R"}
    await setup.syncer.plan_topics(copying([], setup.copied), {})
    assert not setup.syncer._ends


def commit(broker: str = "x") -> Action:
    write = Commit(group="G", topic="U", queue_id=0, offset=1)
    return Action(kind="offsets", broker=broker, key="G", before=None, after={}, write=write)


async def test_a_group_that_has_consumers_by_now_keeps_its_offset(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commits of many groups take long; that of one who is forced is not asked about."""
    done: list[str] = []

    async def apply(_cluster: object, action: Action) -> None:
        done.append(action.key)

    monkeypatch.setattr(under_test, "apply", apply)
    assert (await setup.syncer.apply(commit())).error == ""
    await setup.syncer._consumers.read(["G"])
    setup.target.consuming = {"G"}
    assert (await setup.syncer.apply(commit())).error == ""
    monkeypatch.setattr(target_consumers, "now", lambda: now() + 60.0)
    assert (await setup.syncer.apply(commit())).error == "it has consumers at the target by now"
    drop = Action(kind="groups", broker="x", key="G", before={}, after=None, write=DropGroup("G"))
    assert (await setup.syncer.apply(drop)).error == "it has consumers at the target by now"
    assert done == ["G", "G"]


async def test_no_offset_is_changed_at_a_broker_that_does_not_say_who_consumes(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the other port it may still take commits."""
    queue = CopiedQueue(Queue("b", 0), Queue("x", 0), "U", 10, 0, OffsetMap(), 0)
    places = [GroupQueue("G", "U", replace(queue, target=Queue(broker, 0)), 5, None) for broker in ("x", "y")]

    async def read(_: object) -> list[GroupQueue]:
        return places

    async def silent(broker: Any, group: str) -> list[str]:
        if broker.name == "x":
            raise RequestTimeout("x", 38, 3.0)
        return []

    monkeypatch.setattr(setup.syncer.places, "read", read)
    monkeypatch.setattr(target_consumers, "consumers", silent)
    planned, _ = await setup.syncer.plan_offsets(copying((), setup.copied))
    assert {each.broker: "not known" in each.blocked for each in planned} == {"x": True, "y": False}


async def test_a_group_with_offsets_of_others_is_not_deleted(setup: Setup) -> None:
    """They would go with it; those of topics that the route copies, or that are gone, may."""
    setup.target.topics["y"]["theirs"] = TopicConfig(name="theirs", read_queues=1, write_queues=1)
    setup.target.offsets = {("G", "gone"): {0: 1}, ("G", "%RETRY%G"): {0: 1}}
    assert (await setup.deletions())["groups"] == {""}
    setup.target.offsets |= {("G", "theirs"): {0: 7}}
    assert (await setup.deletions())["groups"] == {"", OTHERS.format(topic="theirs")}


async def test_a_group_is_deleted_once_it_has_had_no_consumers_for_a_minute(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that was restarted knows of none until its clients have sent their next heartbeat."""
    monkeypatch.setattr(under_test, "_QUIET", 60.0)
    assert (await setup.deletions())["groups"] == {JUST_IDLE}
    monkeypatch.setattr(target_consumers, "now", lambda: now() + 61.0)
    assert (await setup.deletions())["groups"] == {""}


async def test_what_a_broker_without_its_disk_denies_is_not_deleted(setup: Setup) -> None:
    """It comes back by its name and has nothing: the copies are all that is left."""
    setup.copied = {"U": {"b"}, "V": {"b"}, "W": {"a", "b"}}
    entry = Entry({}, {}, "U")
    for name in ("U", "V"):
        setup.target.topics["x"][name] = TopicConfig(name=name, read_queues=1, write_queues=1)
    topics = {("x", name): entry._replace(source=name) for name in ("U", "V")}
    groups = {("x", name): entry._replace(source=name) for name in ("G", "H")}
    setup.target.groups["x"]["H"] = {"groupName": "H"}

    async def found() -> set[str]:
        copy = copying((), setup.copied)
        planned = [*(await setup.syncer.plan_topics(copy, topics)).actions]
        return {each.blocked for each in [*planned, *(await setup.syncer.plan_groups(copy, groups)).actions]}

    assert ["gone there at once" in each for each in await found()] == [True, True]
    setup.source.topics["b"]["V"] = TopicConfig(name="V", read_queues=1, write_queues=1)
    setup.source.groups["a"]["H"] = {"groupName": "H"}
    assert await found() == {""}
