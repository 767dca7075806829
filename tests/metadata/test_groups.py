"""Consumer groups at the target: all their settings, and what they may not read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from replicator.client.groups import GroupTable
from replicator.client.request_modes import Modes
from replicator.metadata.action import DropGroup, Forbid, SetMode, WriteGroup
from replicator.metadata.groups import GroupPolicy, GroupSelector, items_of, plan_groups, settings_of
from replicator.metadata.ledger import UNTAKEN, Entry, Key, Planned, remember

Groups = Mapping[str, Mapping[str, Any]]


def table(
    groups: Groups, forbidden: Mapping[str, frozenset[str]] | None = None, modes: Modes | None = None
) -> GroupTable:
    named = {name: {"groupName": name, **config} for name, config in groups.items()}
    return GroupTable(named, forbidden or {}, (), modes)


def plan(
    source: Mapping[str, GroupTable],
    target: Mapping[str, GroupTable],
    ledger: dict[Key, Entry] | None = None,
    *,
    include: str = ".*",
    placed: Collection[str] = ("b", "x"),
    **policy: bool,
) -> Planned:
    return plan_groups(
        source,
        target,
        ledger or {},
        selector=GroupSelector.of([include], []),
        topics={"T": "c_T"},
        placed={"c_T": placed},
        policy=GroupPolicy(**policy),
    )


def applied(planned: Planned, target: Mapping[str, GroupTable], ledger: dict[Key, Entry]) -> dict[str, GroupTable]:
    """The target after it; the ledger learns of it."""
    groups = {broker: dict(each.groups) for broker, each in target.items()}
    forbidden = {broker: dict(each.forbidden) for broker, each in target.items()}
    modes = {broker: None if each.modes is None else {**each.modes} for broker, each in target.items()}
    written = set()
    for action in planned.actions:
        if action.blocked:
            continue
        written.add((action.broker, action.key))
        match action.write:
            case WriteGroup(config):
                before = groups[action.broker].get(action.key, {}).get("attributes") or {}
                attributes = dict(before)
                for name, value in config["attributes"].items():
                    if name.startswith("+"):
                        attributes[name[1:]] = value
                    else:
                        del attributes[name[1:]]
                groups[action.broker][action.key] = {**config, "attributes": attributes}
            case DropGroup(name):
                del groups[action.broker][name]
            case Forbid(group, topic, readable):
                known = forbidden[action.broker].get(group, frozenset())
                forbidden[action.broker][group] = known - {topic} if readable else known | {topic}
            case SetMode(group, topic, mode):
                known_modes = modes[action.broker]
                assert known_modes is not None
                known_modes[group] = {**known_modes.get(group, {}), topic: mode}
    after = {broker: GroupTable(groups[broker], forbidden[broker], (), modes[broker]) for broker in target}
    current = {(broker, item): each for broker in after for item, each in items_of(after[broker]).items()}
    for key, entry in remember(planned, current, ledger, written=written, answered=after).items():
        ledger.pop(key, None)
        if entry is not None:
            ledger[key] = entry
    return after


def test_every_target_broker_gets_every_group() -> None:
    """With all its settings, those too that this program does not know."""
    ledger: dict[Key, Entry] = {}
    config = {"retryMaxTimes": 3, "consumeEnable": False, "attributes": {"a": "b"}, "unheardOf": {"x": [1]}}
    source = {"a": table({"G": config}), "b": table({})}
    target = {"x": table({}), "y": table({"G": {"retryMaxTimes": 3, "ownSetting": 1}})}
    after = applied(plan(source, target, ledger, repair=True), target, ledger)
    assert [settings_of(each.groups["G"]) for each in after.values()] == [config, config]
    assert plan(source, after, ledger).actions == []


def test_groups_that_were_there_before() -> None:
    """Others than at the source they are told, or taken over; what they lack is added."""
    ledger: dict[Key, Entry] = {}
    source = {"a": table({"G": {"consumeEnable": True, "retryMaxTimes": 3}})}
    before = {"x": table({"G": {"consumeEnable": False, "attributes": {"c": "d"}}})}
    planned = plan(source, before, ledger)
    assert ["existed at the target before" in action.blocked for action in planned.actions] == [True]
    assert applied(planned, before, ledger) == before
    assert ledger == {}
    after = applied(plan(source, before, ledger, repair=True), before, ledger)
    assert settings_of(after["x"].groups["G"]) == settings_of(source["a"].groups["G"])
    assert set(ledger) == {("x", "G")}
    source = {"a": table({"G": {"consumeEnable": True, "retryMaxTimes": 4}})}  # from now on it follows
    assert [action.blocked for action in plan(source, after, ledger).actions] == [""]

    less = {"x": table({"G": {"consumeEnable": True}})}
    assert [action.blocked for action in plan(source, less).actions] == [""]


def test_system_groups_and_unselected_ones_are_left_alone() -> None:
    """Brokers and tools make them for themselves."""
    names = ["TOOLS_CONSUMER", "CID_RMQ_SYS_X", "CID_ONSAPI_PULL", "other", "orders-1"]
    planned = plan({"a": table({name: {} for name in names})}, {"x": table({})}, include="orders.*")
    assert [action.key for action in planned.actions] == ["orders-1"]


def test_source_brokers_that_differ() -> None:
    """The broker of the same name decides, else the first; it is told."""
    source = {"a": table({"G": {"retryMaxTimes": 1}}), "b": table({"G": {"retryMaxTimes": 2}})}
    actions = plan(source, {"b": table({}), "x": table({})}).actions
    assert [action.after and action.after["retryMaxTimes"] for action in actions] == [2, 1]
    assert all("different settings" in action.note for action in actions)


def test_drift_is_told_or_put_right() -> None:
    """As with topics."""
    ledger: dict[Key, Entry] = {}
    source, target = {"a": table({"G": {"retryMaxTimes": 1}})}, {"x": table({})}
    applied(plan(source, target, ledger), target, ledger)
    drifted = {"x": table({"G": {"retryMaxTimes": 9}})}
    assert "manually" in plan(source, drifted, ledger).actions[0].blocked
    repaired = applied(plan(source, drifted, ledger, repair=True), drifted, ledger)
    assert repaired["x"].groups["G"]["retryMaxTimes"] == 1


def test_forbidden_topics_follow_under_their_name_at_the_target() -> None:
    """And are allowed again; other topics of the target are not looked at."""
    ledger: dict[Key, Entry] = {}
    source = {"a": table({"G": {}}, {"G": frozenset({"T", "not copied"})})}
    target = {"x": table({"G": {}}, {"G": frozenset({"own"})}, modes={})}
    after = applied(plan(source, target, ledger), target, ledger)
    assert after["x"].forbidden["G"] == {"own", "c_T"}
    assert plan(source, after, ledger).actions == []
    allowed = applied(plan({"a": table({"G": {}})}, after, ledger), after, ledger)
    assert allowed["x"].forbidden["G"] == {"own"}


def test_bans_of_the_target_are_its_own() -> None:
    """One that somebody has set there is told, not lifted; so is one of ours that somebody has lifted."""
    ledger: dict[Key, Entry] = {}
    source, banned = {"a": table({"G": {}})}, {"x": table({"G": {}}, {"G": frozenset({"c_T"})}, modes={})}
    (told,) = plan(source, banned, ledger).actions
    assert (told.key, "manually" in told.blocked) == ("G reads c_T", True)
    banned = applied(plan(source, banned, ledger), banned, ledger)
    assert "manually" in plan(source, banned, ledger).actions[0].blocked
    assert applied(plan(source, banned, ledger, repair=True), banned, ledger)["x"].forbidden["G"] == frozenset()

    source, free = (
        {"a": table({"G": {}}, {"G": frozenset({"T"})})},
        {"x": table({"G": {}}, {"G": frozenset()}, modes={})},
    )
    set_by_us = applied(plan(source, free, ledger), free, ledger)
    assert set_by_us["x"].forbidden["G"] == {"c_T"}
    assert plan(source, set_by_us, ledger).actions == []
    assert "manually" in plan(source, free, ledger).actions[0].blocked
    assert applied(plan(source, free, ledger, repair=True), free, ledger) == set_by_us


def test_a_broker_that_knows_no_bans_says_so() -> None:
    """4.9: the group reads the topic there, and what it is asked for is refused each time."""
    source = {"a": table({"G": {}}, {"G": frozenset({"T"})})}
    (told,) = plan(source, {"x": table({"G": {}})}, repair=True).actions
    assert told.blocked == UNTAKEN


POP, PULL = {"mode": "POP", "popShareQueueNum": 2}, {"mode": "PULL", "popShareQueueNum": 0}


def test_request_modes_follow_under_the_topics_name_at_the_target() -> None:
    """Of the source broker of the same name, else of the first that has one; other topics are not looked at."""
    ledger: dict[Key, Entry] = {}
    source = {
        "a": table({"G": {}}, modes={"G": {"T": POP, "not copied": POP}}),
        "b": table({"G": {}}, modes={"G": {"T": PULL}, "not selected": {"T": POP}}),
    }
    target = {"b": table({"G": {}}, modes={}), "x": table({"G": {}}, modes={"G": {"own": POP}})}
    after = applied(plan(source, target, ledger, include="G"), target, ledger)
    assert {broker: each.modes for broker, each in after.items()} == {
        "b": {"G": {"c_T": PULL}},
        "x": {"G": {"own": POP, "c_T": POP}},
    }
    assert plan(source, after, ledger, include="G").actions == []
    changed = {"a": table({"G": {}}, modes={"G": {"T": PULL}})}
    again = applied(plan(changed, after, ledger), after, ledger)
    assert (again["x"].modes or {})["G"]["c_T"] == PULL


def test_no_request_mode_is_set_where_the_topic_is_not() -> None:
    """The broker refuses it, each time."""
    source = {"a": table({"G": {}}, modes={"G": {"T": POP}})}
    target = {broker: table({"G": {}}, modes={}) for broker in ("x", "y")}
    (action,) = plan(source, target, placed={"y"}).actions
    assert action.broker == "y"


def test_request_modes_that_somebody_has_set_are_told() -> None:
    ledger: dict[Key, Entry] = {}
    source, target = {"a": table({"G": {}}, modes={"G": {"T": POP}})}, {"x": table({"G": {}}, modes={"G": {}})}
    target = applied(plan(source, target, ledger), target, ledger)
    by_hand = {"x": table({"G": {}}, modes={"G": {"c_T": PULL}})}
    (told,) = plan(source, by_hand, ledger).actions
    assert (told.key, "manually" in told.blocked) == ("G request mode of c_T", True)
    assert applied(plan(source, by_hand, ledger, repair=True), by_hand, ledger) == target


def test_a_broker_without_request_modes_says_so() -> None:
    """4.9 as the target: the group fetches there; as the source: it has nothing to say."""
    source = {"a": table({"G": {}}, modes={"G": {"T": POP}})}
    (told,) = plan(source, {"x": table({"G": {}})}).actions
    assert told.blocked == UNTAKEN  # which no readiness counts
    assert plan({"a": table({"G": {}})}, {"x": table({"G": {}}, modes={"G": {"c_T": POP}})}).actions == []


def test_deleted_groups() -> None:
    """Only those that were synced, and only when that is allowed."""
    ledger: dict[Key, Entry] = {}
    target = {"x": table({"own": {}})}
    target = applied(plan({"a": table({"G": {}})}, target, ledger), target, ledger)
    none = {"a": table({})}
    assert "deleted" in plan(none, target, ledger).actions[0].blocked
    assert plan(none, target, ledger, include="other").actions == []
    assert set(applied(plan(none, target, ledger, deletes=True), target, ledger)["x"].groups) == {"own"}


CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "retryMaxTimes": st.integers(0, 3),
        "consumeEnable": st.booleans(),
        "attributes": st.dictionaries(st.sampled_from("ab"), st.sampled_from("cd"), max_size=2),
        "groupRetryPolicy": st.none() | st.just({"type": "CUSTOMIZED"}),
    },
)
TABLES = st.dictionaries(st.sampled_from(["a", "x"]), st.dictionaries(st.sampled_from("GH"), CONFIGS), min_size=1)


@given(TABLES, TABLES, st.booleans(), st.booleans())
def test_plans_come_to_rest(
    sources: dict[str, Groups], targets: dict[str, Groups], repair: bool, deletes: bool
) -> None:
    """Whatever is found: after one round nothing is left to do but what is blocked."""
    ledger: dict[Key, Entry] = {}
    source = {broker: table(groups) for broker, groups in sources.items()}
    target = {broker: table(groups) for broker, groups in targets.items()}
    target = applied(plan(source, target, ledger, repair=repair, deletes=deletes), target, ledger)
    planned = plan(source, target, ledger, repair=repair, deletes=deletes)
    assert [action for action in planned.actions if not (action.blocked and not repair)] == []
    before = dict(ledger)
    applied(planned, target, ledger)
    assert ledger == before
