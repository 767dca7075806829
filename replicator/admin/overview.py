"""Are we safe to fail over? What readiness, workers and topics say to it, for who asks at 3 a.m."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from replicator.admin.failover_turn import NotNow, failed_over_at
from replicator.admin.group_view import GroupView, source_away
from replicator.admin.kept_answers import Kept, KeptAnswers
from replicator.admin.metadata_plan import metadata_plan
from replicator.admin.readiness import LAST_SEEN, readiness, reasons_of_groups, reasons_of_topics
from replicator.admin.target_losses import TARGET_LOSS
from replicator.admin.verified_queues import differing
from replicator.connector.route import Route
from replicator.connector.sync.ledger import SyncLedger
from replicator.observe.duration import duration
from replicator.observe.latest_progress import Trend
from replicator.observe.moment import moment
from replicator.observe.pending_lines import pending_lines
from replicator.observe.topic_history import TopicHistory
from replicator.plugins.registry import PluginConfig
from replicator.routing.parked import KINDS
from replicator.routing.state import Phase
from replicator.settings import RouteSettings
from replicator.state.connector_configs import Connector, State, Unknown
from replicator.worker.worker import Worker

__all__ = ["SPLIT", "Overview", "Safety", "Verdict", "safety"]

Verdict = Literal["yes", "no", "unknown"]

#: Seconds within which a message that is not at the target yet is on its way: a failover waits for those.
_ON_THE_WAY: Final = 10.0
#: Seconds after which an answer of the clusters says nothing about now.
_OLD: Final = 60.0
#: What is said of a worker that holds back its tasks, since others would make each message twice.
SPLIT: Final = (
    "this worker copies nothing: workers of its group are heard that sign with another secret, or with none; set"
    " worker_group_secret_file of all workers to the same one, then restart this worker"
)
#: How bad a verdict is.
_WORSE: Final[dict[Verdict, int]] = {"yes": 0, "unknown": 1, "no": 2}
_SUMMED: Final = (
    *("queues", "failed", "waiting", "stalled", "copied", "lag_messages"),
    *("gap_messages", "target_lost", "audit_differences"),
)
_OLDEST: Final = ("lag_seconds", "verified_age_seconds")


@dataclass(slots=True)
class Safety:
    """Whether a failover now would be complete.

    Attributes:
        reasons: what stands against it.
        unknown: what could not be found out.
        notes: what is to be known, and does not stand against it.
    """

    reasons: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        return "no" if self.reasons else "unknown" if self.unknown else "yes"


class Overview:
    """The whole group in one answer; brokers are asked again at most every few seconds.

    `readiness` and `plan` are kept by the names of connectors; `readiness_of` and `plan_of` give them.
    """

    def __init__(self, worker: Worker, history: TopicHistory) -> None:
        self.history = history
        self.readiness = KeptAnswers(self._readiness)
        self.plan = KeptAnswers(self._plan)
        self._worker = worker
        self._view = GroupView(worker)

    async def now(self) -> dict[str, Any]:
        """Whether a failover now would be complete, and the figures of each connector."""
        cluster = self._view.cluster()
        group = group_safety(self._worker, cluster)
        all_ = self._worker.connectors.all().values()
        connectors = await asyncio.gather(*(self._connector(each, group) for each in all_))
        verdicts = [each["safe"] for each in connectors if each["safe"] is not None]
        return {
            "at": time.time(),
            "worker_id": self._worker.id,
            **{name: cluster[name] for name in ("group", "source", "target", "leader", "rebalancing", "workers")},
            "missing_workers": missing_workers(self._worker),
            "safe": max(verdicts, key=_WORSE.__getitem__, default="unknown"),
            "connectors": list(connectors),
        }

    async def readiness_of(self, connector: Connector) -> Kept[dict[str, Any]]:
        """What `readiness` has found of the connector as it is configured now."""
        return await self.readiness.get(connector.name, _identity(connector))

    async def plan_of(self, connector: Connector) -> Kept[list[dict[str, Any]]]:
        """The steps of its metadata plan, by its configuration of now."""
        return await self.plan.get(connector.name, _identity(connector))

    def _failed_over_at(self, connector: Connector) -> float | None:
        return failed_over_at(SyncLedger(connector.name, self._worker.store), connector.state)

    def _route(self, name: str) -> Route:
        route = self._worker.routes.get(name)
        if not isinstance(route, Route):
            raise Unknown(f"connector {name!r} syncs no metadata", hint="only routing connectors do")
        if _but_rates(route.settings) != _but_rates(self._worker.connectors.get(name).settings):
            raise NotNow(
                f"connector {name} has a new configuration, and this worker still ends the tasks of the old one",
                hint="look again in a few seconds",
            )
        return route

    async def _readiness(self, name: str) -> dict[str, Any]:
        route, worker = self._route(name), self._worker
        over = self._failed_over_at(worker.connectors.get(name))
        return await readiness(route, worker.context, seen_at=worker.refresher.seen_at, failed_over_at=over)

    async def _plan(self, name: str) -> list[dict[str, Any]]:
        return await metadata_plan(self._route(name), self._worker.context)

    async def _connector(self, connector: Connector, group: Safety) -> dict[str, Any]:
        topics = self._view.topics(connector)
        found: dict[str, Any] = {
            "name": connector.name,
            "type": connector.type,
            "state": connector.state.value,
            "safe": None,
            "reasons": [],
            "notes": [],
            "checked_at": None,
            "checking": False,
        }
        if connector.type == "ROUTE":
            kept = await self.readiness_of(connector)
            away, over = source_away(self._worker), self._failed_over_at(connector)
            about = safety(connector, topics, kept, at=time.time(), away=away, over=over)
            about.unknown += group.unknown
            about.notes += group.notes
            found |= {
                "safe": about.verdict,
                "reasons": [*about.unknown, *about.reasons] if away else [*about.reasons, *about.unknown],
                "notes": about.notes,
                "checked_at": kept.at or None,
                "checking": kept.asking,
            }
        return found | self._figures(connector, topics)

    def trend(self, connector: Connector, topic: str) -> Trend | None:
        """How a topic has done in the last ten seconds; None: not known yet."""
        if connector.state is not State.RUNNING:  # what was copied just before is over
            return Trend(0.0, 0.0)
        return self.history.latest.trend((connector.name, topic))

    def _figures(self, connector: Connector, topics: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Sums over its topics, and how fast they go."""
        trends = [self.trend(connector, topic["topic"]) for topic in topics]
        known = [trend for trend in trends if trend is not None]
        lag = sum(topic["lag_messages"] for topic in topics)
        return {
            "topics": len(topics),
            "delay_queues": sum(topic["queues"] for topic in topics if topic["topic"] in KINDS),
            **{name: sum(topic[name] for topic in topics) for name in _SUMMED},
            **{name: max((topic[name] for topic in topics), default=0.0) for name in _OLDEST},
            "rate": sum(trend.rate for trend in known) if known else None,
            "eta_seconds": time_left(lag, sum(trend.growth for trend in known)),
        }


def _identity(connector: Connector) -> object:
    """What tells it from another connector of its name, and from itself with another configuration."""
    return connector.made, connector.epoch, _but_rates(connector.settings)


def _but_rates(settings: RouteSettings | PluginConfig) -> object:
    """`settings` without what changes while tasks run."""
    if isinstance(settings, PluginConfig):
        return settings
    return settings.model_copy(update={"rate_messages": 0, "rate_bytes": 0})


def time_left(lag: float, growth: float) -> float | None:
    """Seconds until nothing is left if the lag goes on like this; None: it does not shrink, as far as is known."""
    if not lag:
        return 0.0
    return lag / -growth if growth < 0 else None


def missing_workers(worker: Worker) -> list[str]:
    """Workers that have tasks, and were not heard from for a session timeout."""
    if worker.standby is not None:
        return []
    return sorted(worker.coordinator.assignment.members - {worker.id, *worker.others})


def group_safety(worker: Worker, cluster: dict[str, Any]) -> Safety:
    """What the group's own state says: it keeps no failover from being complete, but may hide what does."""
    found = Safety()
    if source_away(worker):
        return found  # each connector says what that means for it
    if worker.group.waiting_for:
        found.unknown.append(f"this worker waits for {worker.group.waiting_for} to end")
    elif not worker.may_send():
        found.unknown.append("this worker does not reach its group: ask another worker")
    elif worker.group.is_split:
        found.unknown.append(SPLIT)
    elif cluster["rebalancing"]:
        found.unknown.append("a rebalance is in progress, which takes seconds")
    found.unknown += [f"worker {name} has tasks and is not heard from" for name in missing_workers(worker)]
    if worker.group.inbox.hears_other_secret and not worker.group.is_split:
        found.notes.append(
            "workers of this group are heard that sign with another secret, or with none: set their"
            " worker_group_secret_file to this group's; until then they may copy the same topics once more"
        )
    found.notes += [
        f"worker {each['worker_id']} gets no further tasks: it does not reach the target"
        for each in cluster["workers"]
        if each["state"] == "ONLINE" and not each["takes_tasks"] and not each["waiting_for"]
    ]
    return found


def safety(
    connector: Connector,
    topics: Iterable[dict[str, Any]],
    kept: Kept[dict[str, Any]],
    *,
    at: float,
    away: str = "",
    over: float | None = None,
) -> Safety:
    """What stands against a failover of one route.

    Args:
        topics: as workers published them.
        kept: what was found at the clusters; see `readiness`.
        at: seconds since the epoch.
        away: why the source cannot be reached; empty: it can.
        over: when the route was failed over; None: it is not.
    """
    found = Safety()
    done = f"was failed over at {moment(over)} and " if over else ""
    halted = f"connector {connector.name} {done}is {connector.state.value}"
    if away:
        _judge_without_source(kept.value, away, found, at=at, halted=halted if over else "")
        return found
    if connector.state is not State.RUNNING:
        found.notes.append(f"{halted}: what comes to the source now is not copied")
    found.reasons += _of_tasks(topics)
    if kept.value is None:
        why = kept.problem or ("the clusters are being asked" if kept.asking else "they were not asked")
        found.unknown.append(f"what the clusters have is not known: {why}")
        return found
    if at - kept.at > _OLD or kept.late:
        why = f": {kept.problem}" if kept.problem else ": a cluster does not answer now" if kept.late else ""
        found.unknown.append(f"what the clusters have was last seen {duration(at - kept.at)} ago{why}")
    elif kept.problem:
        found.notes.append(f"what the clusters have could not be seen again: {kept.problem}")
    _judge(kept.value, found, copies=connector.state is State.RUNNING)
    waiting = pending_lines(kept.value["pending"])
    later = "" if connector.state is State.RUNNING else ", when the route runs again"
    found.notes += [f"waits at the source, and is copied once it is delivered there{later}: {w}" for w in waiting]
    return found


def _judge_without_source(
    ready: dict[str, Any] | None, away: str, found: Safety, *, at: float, halted: str
) -> None:
    """What is still known, and what to do; not what follows for each topic from there being no source.

    Args:
        halted: how it stands since it was failed over; empty: it was not.
    """
    found.unknown.append(
        "the source cannot be reached, so nothing is copied, and what it has and the target lacks is not known:"
        f" {away}"
    )
    if ready is not None:
        ours = {*differing(ready["verified"]), *reasons_of_groups(ready["groups"])}
        found.reasons += [each for each in ready["reasons"] if each in ours or each.startswith(TARGET_LOSS)]
        queues = [queue for topic in ready["topics"] for queue in topic["unknown_queues"]]
        if until := max((queue["copied_until"] or 0.0 for queue in queues), default=0.0):
            found.notes.append(f"the last copied message was stored at {moment(until)}, {duration(at - until)} ago")
    found.notes.append(
        halted or "if the source is lost for good, fail over and say so (`--source-dead`); else wait for it"
    )


def _of_tasks(topics: Iterable[dict[str, Any]]) -> Iterable[str]:
    """Topics that are not copied as they should be."""
    for topic in topics:
        name, why = f"topic {topic['topic']}", f": {topic['reason']}" if topic["reason"] else ""
        if topic["failed"]:
            yield f"{name}: {topic['failed']:,} of {topic['queues']:,} queues have failed{why}"
        elif topic["waiting"]:
            yield f"{name}: {topic['waiting']:,} of {topic['queues']:,} queues wait{why}"
        elif topic["stalled"]:
            yield f"{name}: {topic['stalled']:,} of {topic['queues']:,} queues make no progress{why}"
        elif topic["state"] == Phase.UNASSIGNED:
            yield f"{name}: no worker copies it{why}"


def _judge(ready: dict[str, Any], found: Safety, *, copies: bool) -> None:
    """Tells what a failover itself puts in order from what it does not.

    Args:
        copies: whether the route runs; where it does not, nothing is on its way.
    """
    topics, groups = ready["topics"], ready["groups"]
    on_the_way = [
        topic
        for topic in topics
        if copies and not topic["problem"] and topic["seconds_known"] and topic["seconds"] < _ON_THE_WAY
    ]
    rereading = [group for group in groups if not group["missed"] and not group["without_offset"]]
    rereading = [group for group in rereading if not group["stopped_by"]]
    harmless = {*reasons_of_topics(on_the_way), *reasons_of_groups(rereading)}
    unknown = {*reasons_of_topics(topic for topic in topics if topic["problem"] and topic["unknown_queues"])}
    for reason in ready["reasons"]:
        if reason in unknown or reason.startswith(LAST_SEEN):
            found.unknown.append(reason)
        elif reason not in harmless:
            found.reasons.append(reason)
    if messages := sum(topic["messages"] for topic in on_the_way):  # workers tell of copies every two seconds
        seconds = max(topic["seconds"] for topic in on_the_way)
        found.notes.append(
            f"up to {messages:,} messages are on their way, the oldest for {seconds:.1f} s: a failover waits for"
            " them; if the source is lost now, the target lacks them"
        )
    if messages := sum(group["redelivered"] for group in rereading):
        found.notes.append(
            f"consumer groups would get {messages:,} messages redelivered; a failover writes their offsets last"
        )
