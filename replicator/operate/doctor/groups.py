"""Consumer groups and producers: which are connected where, and which groups cannot be synced and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from replicator.aio.bounded import bounded
from replicator.client.app_clients import ConsumerClients, read_consumer_clients, read_producers
from replicator.client.discovery import Discovery
from replicator.client.groups import GroupTable, read_groups
from replicator.connector.context import ConnectorContext
from replicator.errors import ClientError, ProtocolError
from replicator.metadata.groups import GroupPolicy, GroupSelector, plan_groups
from replicator.metadata.ledger import FOUND
from replicator.observe.counted import counted
from replicator.observe.excerpt import excerpt
from replicator.operate.doctor.finding import Finding, good, odd, unchecked
from replicator.routing.plan import TopicPlan
from replicator.settings import Settings

__all__ = ["Applications", "examine_groups", "judge_consumers", "judge_groups", "judge_producers"]

#: Groups of a broker whose consumers are asked for at a time: few, since the broker has other work.
_AT_ONCE: Final = 16
#: Groups of a broker whose consumers are asked for.
_GROUPS: Final = 500

#: Added to what is ok, where it is known of some brokers only.
_OF_SOME: Final = ", by the brokers that answered"


@dataclass(slots=True)
class Applications:
    """Who uses a cluster: by broker its groups, by group the consumers and the producers that are connected.

    Of so many `brokers` some were `silent` about groups or their consumers, and some about producers.
    """

    groups: dict[str, GroupTable] = field(default_factory=dict)
    consumers: dict[str, ConsumerClients] = field(default_factory=dict)
    producers: dict[str, frozenset[str]] = field(default_factory=dict)
    asked: int = 0
    brokers: int = 1
    silent: int = 0
    silent_on_producers: int = 0
    findings: list[Finding] = field(default_factory=list)


async def examine_groups(
    settings: Settings, plans: Sequence[TopicPlan], context: ConnectorContext
) -> list[Finding]:
    """Looks at the applications of both clusters."""
    selector = GroupSelector.of(settings.sync_groups, settings.exclude_groups)
    source = await _applications("source", context.source, selector)
    target = await _applications("target", context.target, selector)
    topics = {plan.topic: plan.target_topic for plan in plans}
    findings = source.findings + target.findings
    findings += judge_producers(source, target)
    findings += judge_consumers(target, {*topics.values()}, settings)
    if "groups" in settings.sync:
        findings += judge_groups(source, target, topics, settings, selector)
    elif "offsets" in settings.sync:
        findings += judge_named(target, selector.named)
    else:
        findings.append(good("groups", "sync", "groups and offsets are not synced (sync)"))
    return findings


async def _applications(side: str, cluster: Discovery, selector: GroupSelector) -> Applications:
    found = Applications(brokers=len(cluster.topics))
    if cluster.cluster.is_proxy:
        message = "its groups, consumers and producers, because a Proxy does not tell them"
        found.findings.append(unchecked("groups", f"{side} cluster", message))
        found.silent = found.silent_on_producers = found.brokers
        return found
    for name in sorted(cluster.topics):
        try:
            broker = cluster.cluster.reader(name)
            table = found.groups[name] = await read_groups(broker)
            names = sorted(filter(selector.selects, table.groups))
            heard = await bounded(partial(read_consumer_clients, broker), names[:_GROUPS], at_once=_AT_ONCE)
        except (ClientError, ProtocolError) as error:
            message = f"its groups and their consumers, because {error.message}"
            found.findings.append(unchecked("groups", f"{side} broker {name}", message, "see docs/ACL.md"))
            found.silent += 1
            found.silent_on_producers += 1
            continue
        found.asked += len(heard)
        for group, clients in zip(names, heard, strict=False):
            if clients is not None:
                found.consumers[group] = _joined(found.consumers.get(group), clients)
        if len(names) > _GROUPS:
            message = f"the consumers of {len(names) - _GROUPS:,} further groups: it would take long"
            found.findings.append(unchecked("groups", f"{side} broker {name}", message, "see --sync-groups"))
        try:
            for group, hosts in (await read_producers(broker)).items():
                found.producers[group] = found.producers.get(group, frozenset()) | hosts
        except (ClientError, ProtocolError) as error:
            found.silent_on_producers += 1
            found.findings.append(
                unchecked("producers", f"{side} broker {name}", f"which, because {error.message}")
            )
    return found


def _joined(one: ConsumerClients | None, other: ConsumerClients) -> ConsumerClients:
    """Of two brokers."""
    if one is None:
        return other
    return ConsumerClients(one.hosts | other.hosts, one.topics | other.topics, other.model)


def judge_producers(source: Applications, target: Applications) -> Iterator[Finding]:
    """Of those that are connected to each side: whether they send to copied topics no broker says."""
    here, there = source.producers, target.producers
    named = {group: f"{group} ({', '.join(sorted(clients))})" for group, clients in sorted(there.items())}
    both = [told for group, told in named.items() if group in here]
    if both:
        yield odd(
            "producers",
            "target",
            f"producer groups of the source are connected to the target, too: {excerpt(both)}",
            "make sure that they send to no copied topic there until the switch, or --protect-target",
        )
        return
    if target.silent_on_producers == target.brokers or (there and source.silent_on_producers == source.brokers):
        return  # nobody knows, and it was said why
    if there:
        some = _OF_SOME if source.silent_on_producers or target.silent_on_producers else ""
        told = excerpt(named.values())
        message = f"{counted(len(there), 'group is')} connected, none of them to the source: {told}{some}"
        yield good("producers", "target", message)
    else:
        yield good("producers", "target", f"none is connected{_OF_SOME if target.silent_on_producers else ''}")


def judge_consumers(target: Applications, topics: set[str], settings: Settings) -> Iterator[Finding]:
    """Of the groups that consume `topics` at the target already: offsets are never written under them."""
    active = {group: clients for group, clients in target.consumers.items() if clients.topics & topics}
    if active:
        named = [f"{group} ({', '.join(sorted(clients.hosts))})" for group, clients in sorted(active.items())]
        yield odd(
            "groups",
            "target",
            f"they consume copied topics at the target already: {excerpt(named)}"
            + ("; so their offsets are not synced" if "offsets" in settings.sync else ""),
            "stop those consumers until the switch, or --exclude-groups",
        )
    elif target.silent < target.brokers:
        message = f"none consumes a copied topic there; {target.asked} were asked about"
        yield good("groups", "target", message + (_OF_SOME if target.silent else ""))


def judge_named(target: Applications, names: Sequence[str]) -> Iterator[Finding]:
    """Of groups whose offsets alone are synced: brokers refuse them for groups that they do not have."""
    for name in names:
        lacking = sorted(broker for broker, table in target.groups.items() if name not in table.groups)
        if lacking:
            message = f"target brokers that do not have it refuse its offsets: {', '.join(lacking)}"
            yield odd("groups", name, message, "create it there, with the settings that it has at the source")
        elif target.groups:
            yield good("groups", name, f"the target takes its offsets{_OF_SOME if target.silent else ''}")


def judge_groups(
    source: Applications,
    target: Applications,
    topics: Mapping[str, str],
    settings: Settings,
    selector: GroupSelector,
) -> Iterator[Finding]:
    """Of the groups that are to be synced: which cannot be, and why.

    Args:
        topics: names at the target by those at the source.
    """
    names = {name for table in source.groups.values() for name in table.groups if selector.selects(name)}
    broadcasting = sorted(group for group, c in source.consumers.items() if c.model == "BROADCASTING")
    if "offsets" not in settings.sync:
        broadcasting = []
    if broadcasting:
        yield odd(
            "groups",
            "offsets",
            f"they consume in broadcasting mode, and have their offsets in their clients: {excerpt(broadcasting)}",
            "move those files with the applications, or let them begin where consumeFromWhere says",
        )
    policy = GroupPolicy(repair=settings.on_drift == "repair")
    everywhere = dict.fromkeys(topics.values(), target.groups.keys())
    planned = plan_groups(
        source.groups, target.groups, {}, selector=selector, topics=topics, placed=everywhere, policy=policy
    )
    other = sorted({action.key for action in planned.actions if action.blocked == FOUND})
    if other:
        yield odd(
            "groups",
            "settings",
            f"they have other settings at the target, and keep them: {excerpt(other)}",
            "`replicator plan` shows which; --on-drift repair takes those of the source",
        )
    known = source.silent < source.brokers and target.silent < target.brokers
    if known and not broadcasting and not other:
        some = _OF_SOME if source.silent or target.silent else ""
        yield good("groups", "sync", f"all {len(names)} groups of the source can be synced{some}")
