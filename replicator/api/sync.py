"""REST for a route's metadata and readiness; any worker answers for the group."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from replicator.admin.failover import failover
from replicator.admin.readiness import readiness
from replicator.api import answers
from replicator.api.envelope import NotDone, answer
from replicator.connector.route import Route
from replicator.connector.sync.ledger import SyncLedger
from replicator.state.connector_configs import Connector, Unknown
from replicator.worker.worker import Worker

__all__ = ["sync_routes"]

#: Seconds within which the owner of the metadata task must carry out a request.
_ANSWER_SECONDS: Final = 60.0


class Wanted(BaseModel):
    """`force`: groups whose offsets are written though they have consumers at the target, backwards too."""

    model_config = ConfigDict(extra="forbid")

    force: list[str] = []


class Switch(BaseModel):
    """As in `replicator failover`."""

    model_config = ConfigDict(extra="forbid")

    drain_seconds: float = Field(60.0, ge=0)
    source_dead: bool = False
    open_all: bool = False


def sync_routes(worker: Worker) -> APIRouter:
    """/connectors/{name}/plan, apply, sync, readiness and failover."""
    routes = APIRouter(tags=["metadata"])

    def found(name: str) -> tuple[Connector, Route]:
        connector = worker.connectors.get(name)
        route = worker.routes.get(name)
        if not isinstance(route, Route):
            raise Unknown(f"connector {name!r} syncs no metadata", hint="only routing connectors do")
        return connector, route

    @routes.get("/connectors/{name}/plan", response_model=answers.Envelope[list[answers.PlanStep]])
    async def plan(name: str) -> JSONResponse:
        """What is to be done at the target now; `blocked` says why something is not done by itself.

        What could not be asked has the action `unknown`.
        """
        _, route = found(name)
        look = await route.sync.look()
        return answer([step.shown() for step in (*look.steps, *look.unasked)])

    @routes.get("/connectors/{name}/sync", response_model=answers.Envelope[answers.SyncStatus])
    async def status(name: str) -> JSONResponse:
        """How the metadata task is doing, and what it did last."""
        _, route = found(name)
        ledger = route.sync.ledger
        return answer({**ledger.get("status"), "audit": ledger.get("audit").get("entries", [])})

    @routes.post("/connectors/{name}/apply", response_model=answers.Envelope[list[answers.Applied]])
    async def apply(name: str, wanted: Wanted) -> JSONResponse:
        """Does now what is to be done; whoever owns the metadata task does it."""
        _, route = found(name)
        return answer(await _applied(worker, route.sync.ledger, wanted.force))

    @routes.get("/connectors/{name}/readiness", response_model=answers.Envelope[answers.Readiness])
    async def ready(name: str) -> JSONResponse:
        """If one switched to the target now."""
        _, route = found(name)
        return answer(await readiness(route, worker.context))

    @routes.post("/connectors/{name}/failover", response_model=answers.Envelope[answers.FailoverReport])
    async def switch(name: str, how: Switch) -> JSONResponse:
        """Makes the target the one that applications use."""
        connector, route = found(name)
        report: dict[str, Any] = await failover(worker, connector, route, **how.model_dump())
        return answer(report)

    return routes


async def _applied(worker: Worker, ledger: SyncLedger, force: list[str]) -> list[dict[str, Any]]:
    """Has the owner of the metadata task apply all steps now, and returns the outcomes.

    Raises:
        NotDone: the owner did not start in time, and will not start later; or it has not finished yet.
        Unreachable: the request could not be published to the group.
    """
    asked = ledger.ask(force, seconds=_ANSWER_SECONDS)
    try:
        await worker.changed()
        deadline = asyncio.get_running_loop().time() + _ANSWER_SECONDS
        while (done := ledger.answered(asked)) is None:
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(0.1)
        else:
            return done
    finally:
        ledger.withdraw(asked)
    if ledger.is_taken(asked):
        raise NotDone("it was begun, and its end was not told in time", hint="see what was done: GET …/sync")
    await worker.changed()
    raise NotDone(
        "nobody has done it in time, and nobody will later",
        hint="see whether the connector runs, and its metadata task, and that the workers' clocks agree",
    )
