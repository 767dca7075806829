"""Topics at the target: what is written, what is only told, and that it comes to rest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.client.topics import TopicConfig
from replicator.metadata.action import DropTopic, WriteTopic
from replicator.metadata.ledger import DRIFT, FOUND, Entry, Key, Planned, remember
from replicator.metadata.topics import GivenUpCopies, TopicPolicy, plan_switch, plan_topics, settings_of
from replicator.routing.options import Identity
from replicator.routing.plan import TopicPlan, Topics, chosen_names
from replicator.routing.plan import plan_topics as plan_copies
from replicator.routing.queue_map import Queue
from replicator.routing.selector import TopicSelector, compile_patterns


def topic(name: str = "T", queues: int = 4, **more: object) -> TopicConfig:
    return TopicConfig(name=name, **{"read_queues": queues, "write_queues": queues, **more})  # type: ignore[arg-type]


def plan(
    source: Topics,
    target: Topics,
    ledger: dict[Key, Entry] | None = None,
    *,
    missing: int | None = 0,
    made: bool = True,
    template: str = "{topic}",
    **policy: bool,
) -> Planned:
    plans = _plans(source, target, template, protect=policy.get("protect", False))
    return plan_topics(
        plans,
        source,
        target,
        ledger or {},
        missing=lambda _: missing,
        made=lambda _: set(target) if made else (),
        selects=lambda _: True,
        policy=TopicPolicy(**policy),
    )


def _plans(source: Topics, target: Topics, template: str = "{topic}", *, protect: bool = False) -> list[TopicPlan]:
    selector = TopicSelector(compile_patterns("topics", [".*"]))
    names = chosen_names(source, selector, template, Identity("east", "west"), system=[])
    return plan_copies(source, target, {}, names, protected=names if protect else ())


def test_of_a_broker_that_was_not_asked_nothing_is_said() -> None:
    """It had no such topic when the route was planned, and hangs now."""
    source: Topics = {"a": {"T": topic()}}
    plans = _plans(source, {"x": {}})
    ways = {"missing": lambda _: 0, "made": lambda _: (), "selects": lambda _: True, "policy": TopicPolicy()}
    assert len(plan_topics(plans, source, {"x": {}}, {}, **ways).actions) == 1  # type: ignore[arg-type]
    assert plan_topics(plans, source, {}, {}, **ways).actions == []  # type: ignore[arg-type]


def applied(planned: Planned, target: Topics, ledger: dict[Key, Entry], *, takes_order: bool = True) -> Topics:
    """The target after it; the ledger learns of it."""
    after = {broker: dict(topics) for broker, topics in target.items()}
    written = set()
    for action in planned.actions:
        if action.blocked:
            continue
        written.add((action.broker, action.key))
        if isinstance(action.write, DropTopic):
            del after[action.broker][action.key]
            continue
        assert isinstance(action.write, WriteTopic)
        config = action.write.config
        before = after[action.broker].get(action.key)
        attributes = {**(before.attributes if before else {}), **config.attributes}
        for name in action.write.removed:
            del attributes[name]
        made = replace(config, attributes=attributes)
        after[action.broker][action.key] = made if takes_order else replace(made, order=False)
    current = {(b, n): settings_of(c) for b, topics in after.items() for n, c in topics.items()}
    for key, entry in remember(planned, current, ledger, written=written, answered=after).items():
        ledger.pop(key, None)
        if entry is not None:
            ledger[key] = entry
    return after


def blocked(planned: Planned) -> list[str]:
    return [action.blocked for action in planned.actions if action.blocked]


def test_a_topic_is_made_and_then_kept_in_step() -> None:
    """Perm, order, filter type and attributes follow the source, under the target's name."""
    ledger: dict[Key, Entry] = {}
    source = {"a": {"T": topic(perm=6, order=True, attributes={"message.type": "FIFO"})}}
    target: Topics = {"x": {}}
    target = applied(plan(source, target, template="c_{topic}"), target, ledger)
    assert target["x"]["c_T"] == topic("c_T", order=True, attributes={"message.type": "FIFO"})
    source = {"a": {"T": topic(perm=6, attributes={"a": "b"}, filter_type="MULTI_TAG")}}
    planned = plan(source, target, ledger, template="c_{topic}")
    (action,) = planned.actions
    assert action.before is not None
    assert action.before["attributes"] == {"message.type": "FIFO"}
    assert applied(planned, target, ledger)["x"]["c_T"] == topic(
        "c_T", attributes={"a": "b"}, filter_type="MULTI_TAG"
    )


def test_queues_are_never_taken_away() -> None:
    """The target has more than the source: they stay."""
    ledger: dict[Key, Entry] = {}
    target: Topics = {"x": {"T": topic(queues=9)}}
    planned = plan({"a": {"T": topic(order=True)}}, target, ledger)
    assert applied(planned, target, ledger)["x"]["T"] == topic(queues=9, order=True)


def test_read_only_waits_for_the_last_message() -> None:
    """Until then it is told how many are missing."""
    ledger: dict[Key, Entry] = {}
    source, target = {"a": {"T": topic(perm=4)}}, {"x": {"T": topic()}}
    planned = plan(source, target, ledger, missing=1234)
    assert "1,234 messages" in blocked(planned)[0]
    assert applied(planned, target, ledger) == target
    assert "cannot report now" in blocked(plan(source, target, ledger, missing=None))[0]
    assert applied(plan(source, target, ledger), target, ledger)["x"]["T"].perm == 4


def test_a_new_topic_of_a_protected_target_is_read_only_from_the_beginning() -> None:
    source, ledger = {"a": {"T": topic()}}, dict[Key, Entry]()
    made = applied(plan(source, {"x": {}}, ledger, protect=True), {"x": {}}, ledger)
    assert made["x"]["T"].perm == 4
    assert plan(source, made, ledger, protect=True).actions == []


def test_what_cannot_be_read_is_left_as_it_is() -> None:
    """Write-only, and without any permission: nobody can know its end."""
    target = {"x": {"T": topic()}}
    assert "write-only" in blocked(plan({"a": {"T": topic(perm=2)}}, target))[0]
    assert "without any permission" in blocked(plan({"a": {"T": topic(perm=0)}}, target))[0]


def test_protection_and_the_end_of_it() -> None:
    """Applications can only read until a failover, whatever the source has."""
    ledger: dict[Key, Entry] = {}
    source, target = {"a": {"T": topic()}}, {"x": {"T": topic()}}
    protected = applied(plan(source, target, ledger, protect=True), target, ledger)
    assert protected["x"]["T"].perm == 4
    assert plan(source, protected, ledger, protect=True).actions == []
    assert applied(plan(source, protected, ledger), protected, ledger)["x"]["T"].perm == 6


def test_what_was_opened_is_protected_again() -> None:
    """An older store of a broker opens topics, as people do; all else that differs is reported."""
    ledger: dict[Key, Entry] = {}
    source, target = {"a": {"T": topic()}}, {"x": {"T": topic()}}
    applied(plan(source, target, ledger, protect=True), target, ledger)
    opened: Topics = {"x": {"T": topic()}}
    protected = applied(plan(source, opened, {**ledger}, protect=True), opened, {**ledger})
    assert protected == {"x": {"T": topic(perm=4)}}
    opened = {"x": {"T": topic(order=True)}}
    protected = applied(plan(source, opened, ledger, protect=True), opened, ledger)
    assert protected == {"x": {"T": topic(order=True, perm=4)}}
    for _ in range(2):
        planned = plan(source, protected, ledger, protect=True)
        assert ["manually" in why for why in blocked(planned)] == [True]
        assert applied(planned, protected, ledger) == protected
    repaired = applied(plan(source, protected, ledger, protect=True, repair=True), protected, ledger)
    assert repaired == {"x": {"T": topic(perm=4)}}


def test_a_switch_opens_what_the_source_has_open() -> None:
    """Whatever was protected or changed manually; all of it, where that is asked for."""
    source = {"a": {"T": topic(), "frozen": topic("frozen", perm=4)}}
    target = {"x": {"T": topic(perm=4, order=True), "frozen": topic("frozen", perm=4)}}

    def switched(*, open_all: bool) -> Topics:
        switch = plan_switch(_plans(source, target), source, target, open_all=open_all)
        return applied(switch, target, {})

    assert switched(open_all=False)["x"] == {"T": topic(order=True), "frozen": topic("frozen", perm=4)}
    assert switched(open_all=True)["x"] == {"T": topic(order=True), "frozen": topic("frozen")}


def test_a_switch_opens_a_topic_that_several_are_copied_to() -> None:
    """As soon as one of them is open at the source, whatever their order."""
    for perms in ((4, 6), (6, 4)):
        source = {"a": {name: topic(name, perm=perm) for name, perm in zip("AB", perms, strict=True)}}
        target: Topics = {"x": {"M": topic("M", perm=4)}}
        plans = [
            TopicPlan(topic=name, target_topic="M", queue_map={Queue("a", 0): Queue("x", at)})
            for at, name in enumerate("AB")
        ]
        switch = plan_switch(plans, source, target, open_all=False)
        assert applied(switch, target, {})["x"]["M"].perm == 6


@pytest.mark.parametrize(("there", "here", "after"), [(2, 4, 6), (2, 6, 6), (0, 4, 4), (0, 6, 6)])
def test_a_switch_leaves_what_was_copied_readable(there: int, here: int, after: int) -> None:
    """Of topics that are write-only at the source, or closed altogether."""
    source, target = {"a": {"T": topic(perm=there)}}, {"x": {"T": topic(perm=here)}}
    switch = plan_switch(_plans(source, target), source, target, open_all=False)
    assert applied(switch, target, {})["x"]["T"].perm == after


@pytest.mark.parametrize(
    ("here", "open_all", "after", "told"),
    [(6, False, 6, 0), (4, False, 4, 1), (4, True, 6, 0), (None, False, 6, 0)],
)
def test_a_switch_where_a_source_broker_is_not_known(
    here: int | None, open_all: bool, after: int, told: int
) -> None:
    """It was dead before anybody looked: its topics get the perm that they have elsewhere, if they are there."""
    known = {"a": {} if here is None else {"T": topic(perm=here)}}
    target: Topics = {"x": {"T": topic(perm=4)}, "y": {"T": topic(perm=4)}}
    queue_map = {Queue("a", 0): Queue("x", 0), Queue("b", 0): Queue("y", 0)}
    plans = [TopicPlan(topic="T", target_topic="T", queue_map=queue_map)]
    switch = plan_switch(plans, known, target, open_all=open_all)
    assert applied(switch, target, {})["y"]["T"].perm == after
    assert ["it is read-only at a;" in why for why in blocked(switch)] == [True] * told


@pytest.mark.parametrize("here", [6, 4, None])
def test_a_switch_opens_the_copies_of_forgotten_brokers(here: int | None) -> None:
    """They are no longer in the queue map; nobody knows what the topic was at the broker that had them."""
    known = {"a": {} if here is None else {"T": topic(perm=here)}}
    target: Topics = {
        "x": {"T": topic(perm=4), "gone": topic("gone", perm=4)},
        "y": {"T": topic(perm=4), "gone": topic("gone", perm=4), "two": topic("two", perm=4)},
    }
    plans = [
        TopicPlan(topic="T", target_topic="T", queue_map={Queue("a", 0): Queue("x", 0)}),
        TopicPlan(topic="two", target_topic="two", queue_map={}, problem="it cannot be copied"),
    ]
    given_up = {
        "T": GivenUpCopies("T", {"x", "y"}),
        "gone": GivenUpCopies("gone", {"y"}),
        "two": GivenUpCopies("two", {"y"}),
    }
    switch = plan_switch(plans, known, target, given_up=given_up, open_all=False)
    after = applied(switch, target, {})
    wanted = 4 if here == 4 else 6
    assert [after[broker]["T"].perm for broker in "xy"] == [wanted, wanted]
    assert (after["x"]["gone"].perm, after["y"]["gone"].perm, after["y"]["two"].perm) == (4, 6, 4)


def test_a_resumed_route_protects_again() -> None:
    """After a failover, too: MIGRATION.md and DISASTERS.md switch it off before the route runs again."""
    ledger: dict[Key, Entry] = {}
    source = {"a": {"T": topic()}}
    target: Topics = {"x": {"T": topic()}}
    target = applied(plan(source, target, ledger, protect=True), target, ledger)
    target = applied(plan_switch(_plans(source, target), source, target, open_all=False), target, ledger)
    assert target["x"]["T"].perm == 6
    assert applied(plan(source, target, {**ledger}, protect=True), target, {**ledger})["x"]["T"].perm == 4
    assert plan(source, target, ledger).actions == []
    frozen = {"a": {"T": topic(perm=4)}}  # as it was before the failover, for the producers
    assert applied(plan(frozen, target, ledger), target, ledger)["x"]["T"].perm == 4


def test_a_hand_at_the_target_is_told_or_put_right() -> None:
    """Only once it was in step; a change at the source is not drift."""
    ledger: dict[Key, Entry] = {}
    source, target = {"a": {"T": topic()}}, {"x": {"T": topic()}}
    applied(plan(source, target, ledger), target, ledger)
    drifted = {"x": {"T": topic(perm=4)}}
    assert "manually" in blocked(plan(source, drifted, ledger))[0]
    assert applied(plan(source, drifted, ledger, repair=True), drifted, ledger)["x"]["T"].perm == 6


def test_topics_that_were_there_before() -> None:
    """Others than at the source they are told, or taken over; and protected, where that is asked for."""
    ledger: dict[Key, Entry] = {}
    source = {"a": {"T": topic(attributes={"message.type": "FIFO"})}}
    frozen = {"x": {"T": topic(perm=4)}}
    planned = plan(source, frozen, ledger, made=False)
    assert ["existed at the target before" in why for why in blocked(planned)] == [True]
    assert applied(planned, frozen, ledger) == frozen
    assert ledger == {}
    planned = plan(source, frozen, ledger, made=False, repair=True)
    assert applied(planned, frozen, ledger)["x"]["T"] == source["a"]["T"]

    ledger, own = {}, {"x": {"T": topic(order=True)}}
    protected = applied(plan(source, own, ledger, made=False, protect=True), own, ledger)
    assert protected["x"]["T"] == topic(order=True, perm=4)
    (action,) = plan(source, protected, ledger, made=False, protect=True).actions
    assert (action.blocked, ledger) == (FOUND, {})
    same = {"x": {"T": topic(attributes={"message.type": "FIFO"})}}
    protected = applied(plan(source, same, ledger, made=False, protect=True), same, ledger)
    assert plan(source, protected, ledger, made=False, protect=True).actions == []
    assert applied(plan(source, protected, ledger, made=False), protected, ledger) == same


def test_a_topic_that_the_sync_makes_is_ours() -> None:
    """It may come before whoever prepares the target for the messages, who then finds it there."""
    ledger: dict[Key, Entry] = {}
    source = {"a": {"T": topic(perm=4)}}
    target: Topics = {"x": {}}
    after = applied(plan(source, target, ledger, made=False), target, ledger)
    assert after["x"]["T"].perm == 6
    assert applied(plan(source, after, ledger, made=False), after, ledger)["x"]["T"].perm == 4


def test_what_a_broker_does_not_take_is_tried_once() -> None:
    """4.9 knows no order flag in this request."""
    ledger: dict[Key, Entry] = {}
    source, target = {"a": {"T": topic(order=True)}}, {"x": {"T": topic()}}
    planned = plan(source, target, ledger)
    assert [action.verb for action in planned.actions] == ["update"]
    target = applied(planned, target, ledger, takes_order=False)  # type: ignore[assignment]
    assert "did not apply it" in blocked(plan(source, target, ledger))[0]


def test_deleted_at_the_source() -> None:
    """Only what was copied, only when that is allowed; what is not selected any more is not deleted."""
    ledger: dict[Key, Entry] = {}
    both = {"a": {"T": topic(), "U": topic("U")}}
    target: Topics = {"x": {"own": topic("own")}}
    target = applied(plan(both, target, ledger), target, ledger)
    target = applied(plan(both, target, ledger), target, ledger)
    one = {"a": {"T": topic()}}
    assert ["deleted" in why for why in blocked(plan(one, target, ledger))] == [True]
    after = applied(plan(one, target, ledger, deletes=True), target, ledger)
    assert set(after["x"]) == {"T", "own"}
    assert ("x", "U") not in ledger


def test_source_brokers_that_share_a_target_broker() -> None:
    """Permissions are put together; the settings are those of the broker of the same name."""
    ledger: dict[Key, Entry] = {}
    source = {"a": {"T": topic(perm=4, order=True)}, "x": {"T": topic(perm=6)}}
    target = {"x": {"T": topic(queues=8)}}
    assert plan(source, target, ledger).actions == []


SETTINGS = st.builds(
    topic,
    perm=st.sampled_from([2, 4, 6]),
    order=st.booleans(),
    attributes=st.dictionaries(st.sampled_from("ab"), st.sampled_from("cd"), max_size=2),
)


@given(
    st.lists(SETTINGS, min_size=1, max_size=3),
    st.lists(SETTINGS | st.none(), min_size=1, max_size=2),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_plans_come_to_rest(
    sources: list[TopicConfig],
    targets: list[TopicConfig | None],
    protect: bool,
    repair: bool,
    made: bool,
    takes_order: bool,
) -> None:
    """Whatever is found: after one round nothing is left to do but what is blocked, and the ledger is at rest."""
    ledger: dict[Key, Entry] = {}
    source = {f"b{i}": {"T": config} for i, config in enumerate(sources)}
    target: Topics = {f"b{i}": {"T": config} if config else {} for i, config in enumerate(targets)}
    for _ in range(2):  # the first round makes topics, the second their settings
        target = applied(
            plan(source, target, ledger, protect=protect, repair=repair, made=made),
            target,
            ledger,
            takes_order=takes_order,
        )
    planned = plan(source, target, ledger, protect=protect, repair=repair, made=made)
    assert [action for action in planned.actions if not action.blocked] == []
    before = dict(ledger)
    assert applied(planned, target, ledger, takes_order=takes_order) == target
    assert ledger == before


def test_what_is_changed_by_hand_while_the_perm_waits_is_not_undone_later() -> None:
    """The source's perm is not taken over while messages are missing; the target's stays that of before."""
    source, target, ledger = {"a": {"T": topic()}}, {"x": {"T": topic()}}, dict[Key, Entry]()
    applied(plan(source, target, ledger), target, ledger)
    source = {"a": {"T": topic(perm=4)}}
    by_hand = {"x": {"T": topic(perm=4)}}
    for missing in (5, None, 5):
        assert applied(plan(source, by_hand, ledger, missing=missing), by_hand, ledger) == by_hand
    back = plan({"a": {"T": topic()}}, by_hand, ledger)
    assert DRIFT in blocked(back)
    assert applied(back, by_hand, ledger) == by_hand
