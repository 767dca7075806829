"""What a failover now would mean: which messages are missing at the target, and which each group gets again."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from replicator.admin.pending_messages import pending_messages
from replicator.admin.silent_brokers import look_at
from replicator.admin.target_losses import target_losses
from replicator.admin.topic_lag import topic_lags
from replicator.admin.verified_queues import differing, verified_topics
from replicator.connector.context import ConnectorContext
from replicator.connector.route import Route
from replicator.connector.selection import deselected, reasons_of_deselected
from replicator.connector.sync.acl import Step
from replicator.connector.sync.retry_rights import way_out
from replicator.metadata.groups import GroupSelector
from replicator.metadata.ledger import UNTAKEN
from replicator.observe.counted import counted
from replicator.observe.moment import moment
from replicator.protocol.codes import Response, is_of_acl_1
from replicator.routing.parked import KINDS
from replicator.worker.unseen_sides import unseen_sides

__all__ = [
    "LAST_SEEN",
    "pending_of",
    "readiness",
    "reason_of_none",
    "reasons_of_groups",
    "reasons_of_topics",
]

#: How a reason begins that says nothing of topics of which nobody knows.
LAST_SEEN: Final = "which topics the clusters have was last seen at"

#: Looks at the clusters that may fail before what is known of them is called old.
_LOOKS: Final = 3
#: And seconds that it may be in any case: a look at a large cluster takes some.
_LEAST: Final = 15.0
#: Characters of a value that a reason may have.
_SHORT: Final = 40
#: What is synced of groups, and what of rights to them it takes with ACL 2.0.
_OF_GROUPS: Final = {"groups": "Sub,Get,Create", "offsets": "Sub"}
#: In what is said of a request that a broker refused.
_DENIED: Final = Response.NO_PERMISSION.name


async def readiness(
    route: Route, context: ConnectorContext, *, seen_at: float, failed_over_at: float | None = None
) -> dict[str, Any]:
    """What blocks a failover now, and how much is not copied yet.

    Args:
        seen_at: when it was last looked which topics both clusters have, in seconds since the epoch.
        failed_over_at: when the route was failed over, if it is still: consumers read on at the target since, and
            its topics were opened there, so that only what the target lacks counts.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: the target does not answer.
    """
    async with look_at(context.source.cluster, context.target.cluster):
        return await _readiness(route, context, seen_at=seen_at, failed_over_at=failed_over_at)


async def _readiness(
    route: Route, context: ConnectorContext, *, seen_at: float, failed_over_at: float | None
) -> dict[str, Any]:
    unseen = await unseen_sides(context)
    old = unseen or [*_of_last_look(seen_at, max(_LEAST, _LOOKS * context.metadata_refresh_interval))]
    silent = {*context.source.cluster.addresses, *context.target.cluster.addresses} if unseen else set()
    await route.keep(ended=False)
    topics = await topic_lags(route, context)
    plan = await route.sync.plan()
    verified = await verified_topics(route, context)
    pending = await pending_of(route, context, topics)
    differences = [action.shown() for action in plan.steps if action.kind != "offsets"]
    reasons = [
        *old,
        *reason_of_none(route),
        *(() if failed_over_at else reasons_of_deselected(deselected(route.name, route.topics.selector, context))),
        *reasons_of_topics(topics),
        *await target_losses(route.sync.copied.snapshot(), context),
        *differing(verified),
        *(() if failed_over_at else (*reasons_of_groups(plan.groups), *plan.denied)),
        *_of_differences(each for each in differences if not failed_over_at or each["action"] == "create"),
        *_refused(plan.steps, route.sync.status, context),
        *(str(each) for each in plan.unasked if each.broker not in silent),  # said above
    ]
    return {
        "ready": not reasons,
        "reasons": reasons,
        "failed_over_at": failed_over_at,
        "messages": sum(topic["messages"] for topic in topics),
        "seconds": max((topic["seconds"] for topic in topics), default=0.0),
        "topics": topics,
        "groups": plan.groups,
        "differences": differences,
        "verified": verified,
        "pending": pending,
    }


async def pending_of(
    route: Route, context: ConnectorContext, topics: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """What the source's brokers hold back of the route's topics; it is copied once they deliver it.

    Args:
        topics: of each topic of the route, or of those of which the target lacks some, what `topic_lags` says.
    """
    source = context.source.cluster
    lacking = {each["topic"] for each in topics if each["messages"] or each["problem"]}
    parked = route.topics.parked
    parking = {
        kind: "off" if topic not in parked else "behind" if topic in lacking else "all"
        for topic, kind in KINDS.items()
    }
    selector, settings = route.topics.selector, route.settings
    groups = GroupSelector.of(settings.sync_groups, settings.exclude_groups)
    synced = replace(selector, retries=groups.selects, dead_letters=groups.selects)
    of_groups = (synced if "offsets" in settings.sync else selector).selects
    found = await pending_messages(
        source, source.brokers(), selector.selects, of_groups=of_groups, topics=context.source.topics
    )
    found.problems += route.sync.in_flight_problems
    return found.shown(parking)


def _of_last_look(seen_at: float, longest: float) -> Iterable[str]:
    if time.time() - seen_at > longest:
        yield (
            f"{LAST_SEEN} {moment(seen_at)}: what was created since is not copied;"
            " the worker's log says why (`refresh failed`)"
        )


def reason_of_none(route: Route) -> Iterable[str]:
    """Why nothing that is said of a route's topics counts: it has none, maybe since a name is mistyped."""
    if not route.topics.of_users:
        yield f"no topic of the source is selected: topics = {', '.join(route.settings.topics)}"


def reasons_of_topics(topics: Iterable[dict[str, Any]]) -> Iterable[str]:
    """Why topics are not complete at the target."""
    for topic in topics:
        if topic["problem"]:
            yield f"topic {topic['topic']}: {topic['problem']}"
        elif topic["messages"]:
            up_to = "" if topic["counted"] else "up to "
            yield f"topic {topic['topic']}: {up_to}{counted(topic['messages'], 'message is')} not at the target yet"


# Groups.


def reasons_of_groups(groups: Iterable[dict[str, Any]]) -> Iterable[str]:
    """Why groups would not go on where they are, up to three for each."""
    for group in groups:
        name = f"group {group['group']} in {group['topic']}"
        if group["redelivered"]:
            why = f": {'; '.join(group['stopped_by'])}" if group["stopped_by"] else ""
            yield f"{name} would get {counted(group['redelivered'], 'message')} redelivered{why}"
        if group["missed"]:
            yield f"{name} would miss {counted(group['missed'], 'message')}"
        if group["without_offset"]:
            yield f"{name} has no offset at the target yet, in {counted(group['without_offset'], 'queue')}"


def _of_differences(differences: Iterable[dict[str, Any]]) -> Iterable[str]:
    """What is missing, gone or different, once each: what differs, why that is not put right, and where more is."""
    words = {"create": "is missing", "update": "is different", "delete": "is not seen at the source"}
    found: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for action in differences:
        if action["blocked"] == UNTAKEN:
            continue  # nothing can be done about it
        what = (
            f"{action['kind'].removesuffix('s')} {action['name']} at {action['broker']} {words[action['action']]}"
        )
        details, reasons = found.setdefault(what, ({}, {}))
        details.update(dict.fromkeys(_details(action)))
        reasons.update(dict.fromkeys([action["blocked"]] if action["blocked"] else []))
    for what, (details, reasons) in found.items():
        told = ": ".join((what, *("; ".join(each) for each in (details, reasons) if each)))
        yield f"{told}; see `replicator plan`" if what.endswith(words["update"]) else told


def _refused(steps: Iterable[Step], status: Mapping[str, Any], context: ConnectorContext) -> Iterable[str]:
    """Rights for want of which groups or their offsets could not be synced, and what to type."""
    open_kinds, found = set[str](), dict[str, dict[str, None]]()
    for step in steps:
        found.setdefault(step.kind, {})[step.blocked] = None
        open_kinds |= set() if step.blocked else {step.kind}
    for kind in open_kinds:
        found[kind] |= dict.fromkeys(status.get("kinds", {}).get(kind, {}).get("reasons", ()))
    for kind, actions in _OF_GROUPS.items():
        refusals = [why for why in found.get(kind, ()) if _DENIED in why or is_of_acl_1(why)]
        for why in refusals[:1]:
            more = f" (and {len(refusals) - 1:,} more)" if len(refusals) > 1 else ""
            yield f"{kind} cannot be synced: {why}{more}; {way_out(context, why, actions)}"


def _details(action: Mapping[str, Any]) -> Iterable[str]:
    """What differs: values where they are short, else only their names."""
    if action["action"] != "update" or action["kind"] == "acl":
        return
    before = action["before"]
    for name, wanted in action["after"].items():
        both = (before.get(name), wanted)
        short = all(isinstance(value, bool | int | str) and len(str(value)) <= _SHORT for value in both)
        yield f"{name}={before[name]}, wanted {wanted}" if short else name
