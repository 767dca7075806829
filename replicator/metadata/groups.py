"""Consumer groups: all their settings, bans and request modes, as the source has them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from replicator.client.groups import GroupTable
from replicator.metadata.action import Action, DropGroup, Forbid, SetMode, WriteGroup
from replicator.metadata.ledger import (
    DELETED,
    DRIFT,
    UNTAKEN,
    Entry,
    Finding,
    Ledger,
    Planned,
    compare,
    differing,
    judged,
    unless_repaired,
)
from replicator.routing.selector import TopicSelector, compile_patterns
from replicator.settings.name_patterns import is_name

__all__ = ["KIND", "GroupPolicy", "GroupSelector", "items_of", "plan_groups", "settings_of"]

KIND: Final = "groups"

#: `MixAll`'s names, and what brokers and tools make for themselves.
_SYSTEM: Final = frozenset(
    {
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL",
        "CID_SYS_RMQ_TRANS",
        "DEFAULT_CONSUMER",
        "SCHEDULE_CONSUMER",
        "CLIENT_INNER_PRODUCER",
        "SELF_TEST_P_GROUP",
        "__MONITOR_CONSUMER",
        "please_rename_unique_group_name",
        "please_rename_unique_group_name_4",
        "please_rename_unique_group_name_5",
        "_tools_consumer",
    }
)
_SYSTEM_PREFIXES: Final = ("CID_RMQ_SYS_", "CID_DefaultHeartBeatSyncerTopic", "replicator_sys_", "%")

#: The one member of a group's settings that is not compared.
_NAME: Final = "groupName"

#: What is compared of a topic that a group may not read.
_BANNED: Final[Mapping[str, Any]] = {"allowed": False}


@dataclass(frozen=True, slots=True)
class GroupSelector:
    """Groups that are included, not excluded, and no broker's or tool's own."""

    patterns: TopicSelector

    @classmethod
    def of(cls, include: Sequence[str], exclude: Sequence[str]) -> GroupSelector:
        """From names or regular expressions."""
        return cls(
            TopicSelector(compile_patterns("sync_groups", include), compile_patterns("exclude_groups", exclude))
        )

    @property
    def named(self) -> list[str]:
        """Those that are included by name."""
        return [group for group in self.patterns.include.texts if is_name(group) and self.selects(group)]

    def selects(self, group: str) -> bool:
        own = group in _SYSTEM or group.startswith(_SYSTEM_PREFIXES)
        return not own and self.patterns.selects(group)


class GroupPolicy(NamedTuple):
    """`repair` and `deletes` as in `TopicPolicy`."""

    repair: bool = False
    deletes: bool = False


def plan_groups(
    source: Mapping[str, GroupTable],
    target: Mapping[str, GroupTable],
    ledger: Ledger,
    *,
    selector: GroupSelector,
    topics: Mapping[str, str],
    placed: Mapping[str, Collection[str]],
    policy: GroupPolicy,
) -> Planned:
    """What is to be done at the target's brokers: every one has every group.

    Args:
        source, target: per broker what it has.
        topics: names at the target by those at the source, of what is copied.
        placed: by the names at the target, the brokers there that have the topic.
    """
    names = sorted({name for table in source.values() for name in table.groups if selector.selects(name)})
    planned = Planned([], {})
    for broker, table in sorted(target.items()):
        here = {topic: name_there for topic, name_there in topics.items() if broker in placed[name_there]}
        for name in names:
            model = _model(name, source, broker)
            planned.wanted[broker, name] = (settings_of(model), name)
            entry = ledger.get((broker, name))
            planned.actions.extend(_plan_group(name, model, source, broker, table, entry=entry, policy=policy))
            _plan_bans(name, source, broker, table, ledger=ledger, topics=topics, policy=policy, planned=planned)
            _plan_modes(name, source, broker, table, ledger=ledger, topics=here, policy=policy, planned=planned)
    planned.actions.extend(_deletions(names, source, target, ledger, selector, policy))
    return planned


def _model(name: str, source: Mapping[str, GroupTable], broker: str) -> Mapping[str, Any]:
    """The settings on the source broker of that name, or on the first that has the group."""
    having = [source[each].groups[name] for each in sorted(source) if name in source[each].groups]
    same = source.get(broker)
    return same.groups[name] if same is not None and name in same.groups else having[0]


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """What is compared of a group: all of it but its name."""
    return {"attributes": {}, **{name: value for name, value in config.items() if name != _NAME}}


def _plan_group(
    name: str,
    model: Mapping[str, Any],
    source: Mapping[str, GroupTable],
    broker: str,
    table: GroupTable,
    *,
    entry: Entry | None,
    policy: GroupPolicy,
) -> list[Action]:
    current = table.groups.get(name)
    before = None if current is None else settings_of(current)
    wanted = settings_of(model)
    finding = compare(before, wanted, entry)
    found = []
    if finding is not Finding.SAME:
        blocked, note = judged(finding, repair=policy.repair)
        old, new = differing(before, wanted)
        found.append(
            Action(
                kind=KIND,
                broker=broker,
                key=name,
                before=old,
                after=new,
                write=WriteGroup({**wanted, _NAME: name, "attributes": _signed(current, model)}),
                blocked=blocked,
                note=note or _differs(name, source),
            )
        )
    return found


def _signed(current: Mapping[str, Any] | None, model: Mapping[str, Any]) -> dict[str, str]:
    """Attributes as brokers take changes of them: + sets, - removes."""
    old = dict((current or {}).get("attributes") or {})
    new = dict(model.get("attributes") or {})
    return {f"-{name}": "" for name in old.keys() - new.keys()} | {f"+{name}": v for name, v in new.items()}


def _differs(name: str, source: Mapping[str, GroupTable]) -> str:
    """Said where the source's own brokers do not agree."""
    seen = [settings_of(table.groups[name]) for table in source.values() if name in table.groups]
    return "" if all(each == seen[0] for each in seen) else "the source's brokers have different settings of it"


def items_of(table: GroupTable) -> dict[str, Mapping[str, Any]]:
    """All that is compared of a broker's groups: their settings, each ban to read a topic, each request mode."""
    bans = {_ban(name, topic): _BANNED for name, topics in table.forbidden.items() for topic in topics}
    given = (table.modes or {}).items()
    modes = {_mode(name, topic): mode for name, topics in given for topic, mode in topics.items()}
    return {**{name: settings_of(config) for name, config in table.groups.items()}, **bans, **modes}


def _ban(group: str, topic: str) -> str:
    return f"{group} reads {topic}"


def _mode(group: str, topic: str) -> str:
    return f"{group} request mode of {topic}"


def _plan_bans(
    name: str,
    source: Mapping[str, GroupTable],
    broker: str,
    table: GroupTable,
    *,
    ledger: Ledger,
    topics: Mapping[str, str],
    policy: GroupPolicy,
    planned: Planned,
) -> None:
    """Bans follow the source; of those at the target only ours are lifted when it has them no more."""
    wanted = {
        topics[topic] for each in source.values() for topic in each.forbidden.get(name, ()) if topic in topics
    }
    current = table.forbidden.get(name, frozenset()) & set(topics.values())
    for topic in sorted(wanted | current):
        key = _ban(name, topic)
        entry = ledger.get((broker, key))
        if topic in wanted:
            planned.wanted[broker, key] = (_BANNED, name)
        if topic in wanted and topic in current:
            continue
        # Wanted and known, somebody has lifted it; not wanted and not known, somebody has set it.
        by_hand = (entry is not None) == (topic in wanted)
        blocked, note = unless_repaired(DRIFT, repair=policy.repair) if by_hand else ("", "")
        if table.modes is None:  # 4.9 has no bans either
            blocked, note = UNTAKEN, ""
        planned.actions.append(
            Action(
                kind=KIND,
                broker=broker,
                key=key,
                before={"allowed": topic not in current},
                after={"allowed": topic in current},
                write=Forbid(name, topic, readable=topic in current),
                blocked=blocked,
                note=note,
            )
        )


def _plan_modes(
    name: str,
    source: Mapping[str, GroupTable],
    broker: str,
    table: GroupTable,
    *,
    ledger: Ledger,
    topics: Mapping[str, str],
    policy: GroupPolicy,
    planned: Planned,
) -> None:
    """Request modes follow the source broker of the same name, else the first that has one; none is taken back."""
    wanted: dict[str, Mapping[str, Any]] = {}
    for each in sorted(source, key=lambda other: (other != broker, other)):
        for topic, mode in ((source[each].modes or {}).get(name) or {}).items():
            if topic in topics:
                wanted.setdefault(topics[topic], mode)
    for topic, mode in sorted(wanted.items()):
        key = _mode(name, topic)
        planned.wanted[broker, key] = (mode, name)
        current = (table.modes or {}).get(name, {}).get(topic)
        finding = compare(current, mode, ledger.get((broker, key)))
        if finding is Finding.SAME:
            continue
        blocked, note = judged(Finding.UNTAKEN if table.modes is None else finding, repair=policy.repair)
        before, after = differing(current, mode)
        planned.actions.append(
            Action(
                kind=KIND,
                broker=broker,
                key=key,
                before=before,
                after=after,
                write=SetMode(name, topic, mode),
                blocked=blocked,
                note=note,
            )
        )


def _deletions(
    names: Sequence[str],
    source: Mapping[str, GroupTable],
    target: Mapping[str, GroupTable],
    ledger: Ledger,
    selector: GroupSelector,
    policy: GroupPolicy,
) -> list[Action]:
    there = {name for table in source.values() for name in table.groups}
    return [
        Action(
            kind=KIND,
            broker=broker,
            key=name,
            before=settings_of(target[broker].groups[name]),
            after=None,
            write=DropGroup(name),
            blocked="" if policy.deletes else DELETED,
        )
        for broker, name in sorted(ledger)
        if name not in names
        and name not in there
        and selector.selects(name)
        and name in getattr(target.get(broker), "groups", {})
    ]
