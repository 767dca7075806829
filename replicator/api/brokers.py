"""REST for the brokers of both clusters; any worker answers for the group."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field

from replicator.admin.broker_removal import Removal, forget
from replicator.admin.brokers import known_brokers
from replicator.api import broker_answers
from replicator.api.envelope import answer
from replicator.api.field_meanings import Described
from replicator.api.responses import enveloped
from replicator.worker.worker import Worker

__all__ = ["broker_routes"]


class RemovalRequest(Described):
    """As in `replicator brokers forget`."""

    model_config = ConfigDict(extra="forbid")

    queues_to: str = Field("", description="the target broker that takes the queues of a target broker")
    lost: Literal["resend", "skip"] | None = Field(
        None, description="whether copies that were only there are copied again from what the source still has"
    )
    dry_run: bool = False


def broker_routes(worker: Worker) -> APIRouter:
    """/brokers."""
    routes = APIRouter(tags=["brokers"])

    @routes.get("/brokers", **enveloped(list[broker_answers.KnownBroker]))
    async def list_brokers() -> JSONResponse:
        """The brokers of both clusters: those that are there, and those that are waited for or forgotten."""
        return answer(await known_brokers(worker))

    @routes.post("/brokers/{side}/{name}/forget", **enveloped(broker_answers.RemovalReport, 400, 404, 409, 503))
    async def forget_broker(side: Literal["source", "target"], name: str, wanted: RemovalRequest) -> JSONResponse:
        """Treats a broker that was taken away for good as gone, until the name servers list it again.

        With `dry_run` it changes nothing, and reports what it would do now.
        """
        report: dict[str, Any] = await forget(worker, Removal(side=side, broker=name, **wanted.model_dump()))
        return answer(report)

    return routes
