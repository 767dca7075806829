"""REST for a route's metadata and readiness; any worker answers for the group."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field
from structlog.contextvars import get_contextvars

from replicator.admin.failover import FailoverOptions, failover
from replicator.admin.failover_turn import failed_over_at, stopped_by_failover
from replicator.admin.metadata_plan import metadata_plan
from replicator.admin.overview import SPLIT
from replicator.admin.readiness import readiness
from replicator.api import sync_answers
from replicator.api.envelope import NotDone, NotFinished, answer
from replicator.api.field_meanings import Described
from replicator.api.responses import enveloped
from replicator.connector.route import Route
from replicator.connector.sync.ledger import SyncLedger
from replicator.observe.logging import get_logger
from replicator.state.connector_configs import Connector, Unknown
from replicator.worker.worker import Worker

__all__ = ["sync_routes"]

#: Seconds within which the worker that runs the metadata task must carry out a request.
_ANSWER_SECONDS: Final = 60.0

log = get_logger(__name__)


class ApplyRequest(Described):
    """`force`: groups whose offsets are written even if they have consumers at the target, and even backwards."""

    model_config = ConfigDict(extra="forbid")

    force: list[str] = Field([])


class FailoverRequest(Described):
    """As in `replicator failover`."""

    model_config = ConfigDict(extra="forbid")

    drain_timeout: float = Field(
        60.0, ge=0, le=86_400, description="seconds to wait for messages that are not copied yet"
    )
    source_dead: bool = False
    open_all: bool = False
    dry_run: bool = False
    topics: list[str] = Field([], description="only these of the connector's topics; it copies the others on")


def sync_routes(worker: Worker) -> APIRouter:
    """/connectors/{name}/plan, apply, sync, readiness and failover."""
    routes = APIRouter(tags=["metadata"])

    def found(name: str) -> tuple[Connector, Route]:
        connector = worker.connectors.get(name)
        route = worker.routes.get(name)
        if not isinstance(route, Route):
            raise Unknown(f"connector {name!r} syncs no metadata", hint="only routing connectors do")
        return connector, route

    @routes.get("/connectors/{name}/plan", **enveloped(list[sync_answers.PlanStep], 404, 503))
    async def plan_sync(name: str) -> JSONResponse:
        """The changes that the target needs now; `blocked` says why a change is not applied automatically.

        The action `unknown` stands for what could not be read.
        """
        _, route = found(name)
        return answer(await metadata_plan(route, worker.context))

    @routes.get("/connectors/{name}/sync", **enveloped(sync_answers.SyncStatus, 404))
    async def get_sync_status(name: str) -> JSONResponse:
        """The status of the metadata task, and its last changes."""
        connector, route = found(name)
        sync = route.sync
        stopped = stopped_by_failover(sync.ledger, connector.state)
        audit = sync.ledger.get("audit").get("entries", [])
        return answer({**sync.status, "audit": audit, "stopped_by_failover_at": stopped})

    @routes.post("/connectors/{name}/apply", **enveloped(list[sync_answers.Applied], 400, 404, 409, 503, 504))
    async def apply_sync(name: str, wanted: ApplyRequest) -> JSONResponse:
        """Applies the plan now, on the worker that runs the metadata task."""
        _, route = found(name)
        return answer(await _applied(worker, name, route.sync.ledger, wanted.force))

    @routes.get("/connectors/{name}/readiness", **enveloped(sync_answers.Readiness, 404, 503))
    async def get_readiness(name: str) -> JSONResponse:
        """What a failover now would mean: messages not copied yet, consumer groups' offsets, differences."""
        connector, route = found(name)
        over = failed_over_at(route.sync.ledger, connector.state)
        seen_at = worker.refresher.seen_at
        ready = await readiness(route, worker.context, seen_at=seen_at, failed_over_at=over)
        if worker.group.is_split:
            ready |= {"ready": False, "reasons": [SPLIT, *ready["reasons"]]}
        return answer({**ready, "state": connector.state.value})

    @routes.post("/connectors/{name}/failover", **enveloped(sync_answers.FailoverReport, 400, 404, 409, 503))
    async def fail_over(name: str, how: FailoverRequest) -> JSONResponse:
        """Prepares the target for applications: drains, stops the connector, syncs offsets, opens topics.

        With `dry_run` it changes nothing, and reports what it would do now.
        """
        connector, route = found(name)
        options = FailoverOptions(**{**how.model_dump(), "topics": frozenset(how.topics)})
        report: dict[str, Any] = await failover(worker, connector, route, options)
        return answer(report)

    return routes


async def _applied(worker: Worker, name: str, ledger: SyncLedger, force: list[str]) -> list[dict[str, Any]]:
    """Has the worker that runs the metadata task of connector `name` apply all steps now, and returns the outcomes.

    Raises:
        BeingApplied: another request is being carried out.
        NotDone: that worker did not start in time, and will not start later.
        NotFinished: it has not finished yet.
        Unreachable: the request could not be published to the group.
    """
    asked = ledger.ask(force, seconds=_ANSWER_SECONDS, by=get_contextvars().get("actor", ""))
    log.info("apply requested", connector=name, forced=force)
    try:
        await worker.changed()
        deadline = asyncio.get_running_loop().time() + _ANSWER_SECONDS
        while (done := ledger.answered(asked)) is None:
            ledger.refuse_if_replaced(asked)
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(0.1)
        else:
            return done
    finally:
        ledger.withdraw(asked)
    if ledger.is_taken(asked):
        raise NotFinished(
            "the changes were started but did not finish in time", hint="GET …/sync shows what was done"
        )
    await worker.changed()
    raise NotDone(
        "no worker started the changes in time, and none will later",
        hint="check that the connector and its metadata task run, and that the workers' clocks agree",
    )
