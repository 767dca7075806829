"""The failover to the target: drain, stop, sync the last offsets, open the target's topics, report."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import inf
from typing import Any, Final

from replicator.admin.readiness import group_standings
from replicator.admin.topic_lag import topic_lags
from replicator.connector.route import Route
from replicator.connector.sync.acl import Done
from replicator.errors import ClientError, ReplicatorError
from replicator.observe.logging import get_logger
from replicator.routing.task_id import TaskId
from replicator.state.connector_configs import Connector, State
from replicator.worker.worker import Worker

__all__ = ["NotNow", "failover"]

#: Seconds between two checks of what is still missing; and seconds that tasks may take to stop.
_LOOK: Final = 0.5
_STOP_SECONDS: Final = 60.0
#: Seconds for which a source that was given up is queried.
_DEAD_SECONDS: Final = 15.0

_NOT_STOPPED: Final = (
    "some tasks still copy, so offsets and topics are left as they are:"
    " check their workers, then repeat the failover"
)

log = get_logger(__name__)


class NotNow(ReplicatorError):
    """The failover did not start; nothing has changed."""


async def failover(
    worker: Worker,
    connector: Connector,
    route: Route,
    *,
    drain_seconds: float,
    source_dead: bool = False,
    open_all: bool = False,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Prepares the target for applications. May be repeated, at any worker, wherever it was interrupted.

    Args:
        drain_seconds: seconds to wait for messages that are not copied yet.
        source_dead: the source is given up; what cannot be reached there is reported, not waited for.
        open_all: all topics become writable at the target, including those that the source does not have.
        dry_run: changes nothing, waits for nothing, and reports what a failover now would do.

    Raises:
        NotNow: this worker does not reach its group.
        BrokerRefused, Unreachable, RequestTimeout: the target does not answer.
    """
    if dry_run:
        return await _report(worker, connector, route, source_dead=source_dead, open_all=open_all)
    if not worker.may_send() and not source_dead:
        raise NotNow(
            "this worker does not reach its group, so others might continue to copy",
            hint="ask another worker; or, if the source is lost for good, use --source-dead",
        )
    if not source_dead:
        await _drain(worker, route, drain_seconds)
    worker.connectors.set_state(connector.name, State.STOPPED, alone=source_dead and not worker.may_send())
    try:
        await worker.changed()
    except ClientError as error:
        if not source_dead:
            raise
        log.warning(
            "only workers that reach the target hear of the stop until the source is back", reason=str(error)
        )
    stopped = await _stopped(worker, connector.name, source_dead=source_dead)
    report = await _report(worker, connector, route, source_dead=source_dead, open_all=open_all, stopped=stopped)
    log.warning(
        "failed over to the target", **{name: report[name] for name in ("connector", "drained", "problems")}
    )
    return report


async def _report(
    worker: Worker,
    connector: Connector,
    route: Route,
    *,
    source_dead: bool,
    open_all: bool,
    stopped: bool | None = None,
) -> dict[str, Any]:
    """Hands over if the route has `stopped`; with None it reports what that would do."""
    dry_run = stopped is None
    missing = await _missing(worker, route, patience=_DEAD_SECONDS if source_dead else inf)
    done: Sequence[Done] = ()
    failed = [_NOT_STOPPED] if stopped is False else []
    if stopped is not False:
        done, unknown = await route.sync.hand_over(open_all=open_all, dry_run=dry_run)
        failed += unknown
    return {
        "connector": connector.name,
        "dry_run": dry_run,
        "stopped": not _running(worker, connector.name, source_dead=source_dead) if dry_run else stopped,
        "drained": not missing,
        "missing": missing,
        "offsets": sum(not each.error for each in done if each.action.kind == "offsets"),
        "topics_opened": sorted(
            {each.action.key for each in done if each.action.kind == "topics" and not each.error}
        ),
        "groups": group_standings(await route.sync.places()),
        "problems": failed
        + [f"{each.action.key} at {each.action.broker}: {each.error}" for each in done if each.error],
    }


async def _missing(worker: Worker, route: Route, *, patience: float = inf) -> list[dict[str, Any]]:
    """Topics with messages that are not at the target, or whose state is not known."""
    route.keep(ended=True)
    lags = await topic_lags(route, worker.context, patience=patience)
    return [topic for topic in lags if topic["messages"] or topic["problem"]]


async def _drain(worker: Worker, route: Route, seconds: float) -> None:
    """Waits until nothing is missing at the target."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    empty = 0  # a broker reports the end of a queue late: check twice
    while True:
        missing = await _missing(worker, route)
        empty = 0 if missing else empty + 1
        if empty == 2 or loop.time() > deadline:
            return
        await asyncio.sleep(_LOOK)


async def _stopped(worker: Worker, name: str, *, source_dead: bool) -> bool:
    """Waits until no task of the connector runs."""
    deadline = asyncio.get_running_loop().time() + _STOP_SECONDS
    while asyncio.get_running_loop().time() < deadline:
        if not _running(worker, name, source_dead=source_dead):
            return True
        await asyncio.sleep(_LOOK)
    return False


def _running(worker: Worker, name: str, *, source_dead: bool) -> bool:
    """Whether a task of the connector runs; with the source dead, as far as the target's log says so."""
    others = worker.seen_at_target if source_dead else worker.coordinator.membership.others
    running = {*worker.coordinator.running, *(task for other in others.values() for task in other.tasks)}
    return any(TaskId.parse(task).connector == name for task in running)
