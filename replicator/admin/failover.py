"""The failover to the target: drain, stop, sync the last offsets, open the target's topics, report."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Final

from replicator.admin.broker_removal import leave_as_it_is
from replicator.admin.failover_steps import Steps
from replicator.admin.failover_turn import NotNow, decided_by_hand, note, refuse_replaced, taking_turn
from replicator.admin.missing_messages import missing_topics, refuse_standing
from replicator.admin.pending_messages import Pending
from replicator.admin.readiness import pending_of, reason_of_none
from replicator.admin.running_tasks import known_running, running, stopped
from replicator.admin.silent_brokers import look_at
from replicator.admin.target_losses import target_losses
from replicator.aio.clock import now
from replicator.client.system_topics import RETRY_PREFIX
from replicator.connector.route import Route
from replicator.connector.selection import deselected, reasons_of_deselected
from replicator.connector.sync.acl import Done
from replicator.errors import ClientError, ConfigError, ReplicatorError
from replicator.metadata.group_standings import group_standings
from replicator.observe.logging import get_logger
from replicator.settings import RouteSettings
from replicator.settings.name_patterns import is_name
from replicator.state.connector_configs import Connector, State
from replicator.worker.unseen_sides import unseen_sides
from replicator.worker.worker import Worker

__all__ = ["FailoverOptions", "check_topics", "failover", "without"]

#: Seconds between two checks of what is still missing.
_POLL_INTERVAL: Final = 0.5
#: Seconds for which a source that was given up is queried.
_DEAD_SECONDS: Final = 15.0

_NOT_STOPPED: Final = (
    "some tasks still copy, so offsets and topics are left as they are:"
    " check their workers, then repeat the failover"
)
_RESUMED: Final = (
    "the connector was resumed or deleted meanwhile, or tasks of it run again, so the failover is not complete:"
    " let nobody resume it, and repeat the failover"
)
_LOST_HALF: Final = "transactions that wait at the source are lost with it: half messages are not parked"
_LOST_PENDING: Final = "delayed messages and transactions that wait at the source are lost with it: none is copied"

#: Heartbeats that others may take to say at the target what they run.
_HEARTBEATS: Final = 1.5
_UNSEEN: Final = (
    "other workers cannot be seen over the target's system topics: if one still reaches the source, it copies on;"
    " make sure that none does"
)

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverOptions:
    """How to fail over.

    `drain_timeout`: how long to wait for messages that are not copied yet. `source_dead`: the source is given up;
    what cannot be reached there is reported, not waited for. `open_all`: the copied topics become readable and
    writable at the target, whatever their perm is at the source. `dry_run`: nothing is changed or waited for, only
    reported. `topics`: of the route these alone, by their names at the source; it copies the others on.
    """

    drain_timeout: float
    source_dead: bool = False
    open_all: bool = False
    dry_run: bool = False
    topics: frozenset[str] = frozenset()

    def concerns(self, topic: str) -> bool:
        """Whether it is switched: with a topic go the retries of its POP consumers, where their names say so."""
        if not self.topics or topic in self.topics:
            return True
        _, is_of_pop, of = topic.partition("+")
        return topic.startswith(RETRY_PREFIX) and bool(is_of_pop) and of in self.topics


async def failover(worker: Worker, connector: Connector, route: Route, how: FailoverOptions) -> dict[str, Any]:
    """Prepares the target for applications. May be repeated, at any worker, wherever it was interrupted.

    The whole route is stopped; if only some topics are switched it runs again without them.

    Raises:
        NotNow: this worker does not reach its group, another failover of the connector is going on, or the route
            stands still and lacks messages.
        ConfigError: a topic is not one that the route copies, or no other one is left.
        BrokerRefused, Unreachable, RequestTimeout: the target does not answer.
    """
    check_topics(connector.settings, how.topics, [plan.topic for plan in route.topics.of_users])
    left = () if how.topics else deselected(route.name, route.topics.selector, worker.context)
    if how.dry_run:
        source, target = worker.context.source.cluster, worker.context.target.cluster
        async with look_at(source, target):
            report = await _report(worker, connector, route, how, Steps(connector.name, dry_run=True))
            report["problems"] += reasons_of_deselected(left)
            return report
    if not worker.may_send() and not how.source_dead:
        raise NotNow(
            "this worker does not reach its group, so others might continue to copy",
            hint="ask another worker; or, if the source is lost for good, use --source-dead",
        )
    if not how.source_dead:
        await refuse_standing(worker, connector, route, how.concerns)
    log.info("failover begins", connector=connector.name, topics=sorted(how.topics), source_dead=how.source_dead)
    steps = Steps(connector.name)
    async with taking_turn(worker, route, source_dead=how.source_dead), steps.shown():
        await _publish(worker, how)
        unseen = list[str]()
        if not how.source_dead:
            await _drain(worker, route, how, steps)
            unseen += worker.refresher.problems  # at the last look, which may be later than that of the drain
        refuse_replaced(worker, route)
        report = await _switch(worker, connector.name, _current(worker, route), how, steps)
    report["problems"] += [*unseen, *reasons_of_deselected(left)]
    try:
        async with steps.shown():
            steps.begin("failover tells the group that the next one may begin")
            await worker.changed()
    except ClientError as error:
        log.warning("end of failover not yet published to the group", connector=route.name, reason=str(error))
    told = {name: report[name] for name in ("connector", "topics", "drained", "problems")}
    log.warning("failed over to the target", **told)
    worker.context.audit.note_change("failed over to the target", worker.id, **told)
    return report


async def _switch(worker: Worker, name: str, route: Route, how: FailoverOptions, steps: Steps) -> dict[str, Any]:
    """Stops the connector and hands over; of some topics alone, it runs without them in the end."""
    steps.begin("failover stops the connector")
    connector = worker.connectors.get(name)  # as it is now: draining takes its time
    before = _state_before(connector, route, how)
    if how.source_dead:
        worker.connectors.fail_over(name, int(time.time() * 1000), alone=not worker.may_send())
    else:
        worker.connectors.set_state(name, State.STOPPED, reason="a failover switches to the target")
    leave_as_it_is(worker.store, name)
    await _publish(worker, how)
    if how.source_dead:
        await asyncio.sleep(_HEARTBEATS * worker.settings.heartbeat_interval)  # what others run is said by then
        refuse_replaced(worker, route)
    has_stopped = await stopped(worker, (name,), source_dead=how.source_dead)
    route = _current(worker, route)
    report = await _report(worker, connector, route, how, steps, has_stopped=has_stopped)
    if report["stopped"] and not how.topics and (how.source_dead or not report["problems"]):
        note(route.sync.ledger, failed_over_at=time.time())
    if how.topics:
        ledger = route.sync.ledger
        done = has_stopped and not report["problems"]
        if done:
            _leave_out(worker, name, how.topics)
        opened = ledger.get("failover").get("opened")
        if done or not opened:  # else it would write to topics that applications write to
            if ledger.get("failover").get("resume"):  # or somebody has decided otherwise meanwhile
                worker.connectors.set_state(name, before, reason="a failover of some topics has ended")
            decided_by_hand(ledger)
            await _publish(worker, how)
    return report


def _current(worker: Worker, route: Route) -> Route:
    """The route as it is now: a restart or another configuration, once its tasks have ended, makes a new one."""
    found = worker.routes.get(route.name)
    return found if isinstance(found, Route) else route


def _leave_out(worker: Worker, name: str, topics: Set[str]) -> None:
    """Takes `topics` out of the connector's configuration, as it is now: others may have changed it meanwhile."""
    settings = worker.connectors.get(name).settings
    if isinstance(settings, RouteSettings):
        worker.connectors.update(name, without(settings, topics).model_dump(mode="json"))


def _state_before(connector: Connector, route: Route, how: FailoverOptions) -> State:
    """The state to which the route returns once some topics are switched: whoever repeats this knows it, too."""
    known, before = route.sync.ledger.get("failover"), connector.state
    if known.get("resume") and before == State.STOPPED:
        before = State(known["resume"])
    if how.topics:
        note(route.sync.ledger, resume=before)
    else:
        note(route.sync.ledger, resume="", opened=False, failed_over_at=0.0, begun_at=time.time())
    return before


def check_topics(settings: object, topics: Set[str], copied: Iterable[str]) -> None:
    """Checks that `topics` can be switched alone.

    Args:
        copied: the topics that the route copies now.

    Raises:
        ConfigError: a topic is not among those, or no other one is left.
    """
    if not topics or not isinstance(settings, RouteSettings):
        return
    copied = {*copied}
    if unknown := sorted(topics - copied):
        what = ", ".join(unknown)
        if all(_excluding(topic) in settings.exclude_topics for topic in unknown):
            raise ConfigError(
                f"the connector does not copy {what} any more: exclude_topics names it",
                hint="a failover of these topics ended so before, and nothing is left to do",
            )
        raise ConfigError(f"the connector does not copy {what}", hint="`replicator lag` lists what it copies")
    if retries := sorted(topic for topic in topics if topic.startswith("%")):
        what = ", ".join(retries)
        raise ConfigError(
            f"retry and dead-letter topics go with their groups: {what}", hint="name other topics only"
        )
    if copied <= topics or topics >= {*settings.topics}:
        raise ConfigError("these are all topics of the connector", hint="fail over without naming topics")


def without(settings: RouteSettings, topics: Set[str]) -> RouteSettings:
    """What a route copies when `topics` have been switched."""
    named = [topic for topic in settings.topics if topic not in topics]
    new = [excluded for topic in sorted(topics) if (excluded := _excluding(topic)) not in settings.exclude_topics]
    return settings.model_copy(
        update={"topics": named or settings.topics, "exclude_topics": [*settings.exclude_topics, *new]}
    )


def _excluding(topic: str) -> str:
    return topic if is_name(topic) else re.escape(topic)


async def _publish(worker: Worker, how: FailoverOptions) -> None:
    try:
        await worker.changed()
    except ClientError as error:
        if not how.source_dead:
            raise
        log.warning(
            "only workers that reach the target hear of the change until the source is back", reason=str(error)
        )


async def _report(
    worker: Worker,
    connector: Connector,
    route: Route,
    how: FailoverOptions,
    steps: Steps,
    *,
    has_stopped: bool | None = None,
) -> dict[str, Any]:
    """Hands over if the route `has_stopped`; with None it reports what that would do."""
    name, dead = connector.name, how.source_dead
    steps.begin("failover looks for what the target lacks")
    missing = await missing_topics(worker, route, how.concerns, patience=_DEAD_SECONDS if dead else inf)
    lost = await target_losses(route.sync.copied.snapshot(how.concerns), worker.context)
    done: Sequence[Done] = ()
    failed = [*([_NOT_STOPPED] if has_stopped is False else []), *reason_of_none(route)]
    if dead and not await _sees_others(worker, how):
        failed.append(_UNSEEN)
    if how.dry_run:
        failed += await unseen_sides(worker.context, source_dead=dead)
    # Only a route that runs sends again what the target has lost: it does, if no topic is opened before.
    if has_stopped is not False and not (lost and how.topics and not dead):
        standstill = _Standstill(worker, name, source_dead=dead)
        done, unknown = await _hand_over(worker, route, how, standstill, steps)
        failed += unknown
        if has_stopped and not standstill.lasts():
            has_stopped = False
            failed.append(_RESUMED)
    steps.begin("failover looks where groups stand, and what waits")
    groups = await group_standings(await route.sync.places())
    pending = _pending_of_dead(route) if dead else await pending_of(route, worker.context, missing)
    if route.topics.parked:
        steps.begin("failover releases what was parked")
    released, unreleased = await _released(worker, route, how, has_stopped=has_stopped)
    failed += unreleased
    return {
        "connector": name,
        "topics": sorted(how.topics),
        "dry_run": how.dry_run,
        "stopped": not running(worker, (name,), source_dead=dead) if has_stopped is None else has_stopped,
        "drained": not missing and not lost,
        "missing": missing,
        "offsets": sum(not each.error for each in done if each.action.kind == "offsets"),
        "topics_opened": _opened(done),
        "groups": [group for group in groups if how.concerns(group["topic"])],
        "synced": route.sync.synced_offsets(how.concerns) if dead else None,
        "pending": {**pending, "messages": [each for each in pending["messages"] if how.concerns(each["topic"])]},
        "released": released,
        "problems": [*lost, *failed]
        + [f"{each.action.key} at {each.action.broker}: {each.error}" for each in done if each.error],
    }


async def _sees_others(worker: Worker, how: FailoverOptions) -> bool:
    """Whether this worker hears at the target what others say there, and they hear what it decides.

    While its reports to a source that is away take their time, something has yet to be written at the target: it is
    written now. A dry run decides nothing that others would have to hear, and writes nothing.
    """
    mirror = worker.mirror
    if mirror is None:
        return worker.sees_others
    if not how.dry_run:
        await mirror.flush()
        return worker.sees_others
    return not mirror.reason and now() - mirror.membership.echo <= mirror.membership.timeout


class _Standstill:
    """Whether a connector that was stopped stays so: anybody may resume it, and what comes before takes minutes."""

    def __init__(self, worker: Worker, name: str, *, source_dead: bool) -> None:
        self._worker = worker
        self._name = name
        self._source_dead = source_dead
        self._over = False
        self._looked_at = -inf

    def lasts(self) -> bool:
        """Whether it was stopped at each look up to now."""
        connector = self._worker.connectors.all().get(self._name)
        self._over = self._over or connector is None or connector.state is not State.STOPPED
        at = time.monotonic()
        if not self._over and at - self._looked_at >= _POLL_INTERVAL:  # tasks are many, and so are changes
            self._looked_at = at
            self._over = known_running(self._worker, (self._name,), source_dead=self._source_dead)
        return not self._over


async def _hand_over(
    worker: Worker, route: Route, how: FailoverOptions, standstill: _Standstill, steps: Steps
) -> tuple[list[Done], list[str]]:
    """As `SyncTask.hand_over`, as long as the `standstill` lasts."""
    if how.dry_run:
        return await route.sync.hand_over(open_all=how.open_all, dry_run=True, concerns=how.concerns)
    if not standstill.lasts():
        return [], []
    before = route.sync.ledger.get("failover").get("opened", False)
    if how.topics:  # known before it is so: whoever repeats this must not write to them
        note(route.sync.ledger, opened=True)
        await _publish(worker, how)
    steps.begin("failover writes offsets and opens topics")
    done, unknown = await route.sync.hand_over(
        open_all=how.open_all, concerns=how.concerns, may_go_on=standstill.lasts, begins=steps.hands_over
    )
    if how.topics and not _opened(done):
        note(route.sync.ledger, opened=before)
    return done, unknown


def _opened(done: Sequence[Done]) -> list[str]:
    """The topics whose settings were changed."""
    return sorted({each.action.key for each in done if each.action.kind == "topics" and not each.error})


def _pending_of_dead(route: Route) -> dict[str, Any]:
    return {**Pending().shown(), "lost": [_LOST_HALF if route.topics.parked else _LOST_PENDING]}


async def _released(
    worker: Worker, route: Route, how: FailoverOptions, *, has_stopped: bool | None
) -> tuple[dict[str, Any] | None, list[str]]:
    """What became of parked messages, or would; None where none are. And what could not be done."""
    if not route.topics.parked or has_stopped is False:
        return None, []
    try:
        if how.dry_run:
            return await worker.releases.would(route, how.topics), []
        others = {**worker.others, **worker.seen_at_target}
        report = await worker.releases.order(route, how.topics, others, publish=partial(_publish, worker, how))
    except ReplicatorError as error:
        return None, [f"parked messages: {error.message}" + (f": {error.hint}" if error.hint else "")]
    return report, []


async def _drain(worker: Worker, route: Route, how: FailoverOptions, steps: Steps) -> None:
    """Waits until nothing is missing at the target, nor of a topic that has just been created."""
    await worker.refresher.refresh()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + how.drain_timeout
    empty, logged = 0, -1  # a broker reports the end of a queue late: check twice
    while True:
        missing = await missing_topics(worker, _current(worker, route), how.concerns)
        empty = 0 if missing else empty + 1
        messages = sum(each["messages"] for each in missing)
        if messages != logged:
            logged = messages
            steps.begin("failover waits for messages", messages=messages, topics=len(missing))
        if empty == 2 or loop.time() > deadline:
            return
        await asyncio.sleep(_POLL_INTERVAL)
