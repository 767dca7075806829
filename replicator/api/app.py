"""The HTTP application of a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from pydantic import BaseModel, ConfigDict, Field

from replicator import __version__
from replicator.runtime.status import queue_status, topic_status
from replicator.runtime.worker import Worker

__all__ = ["make_app"]


class Rates(BaseModel):
    """Limits of the route, per second; 0 is no limit."""

    model_config = ConfigDict(extra="forbid")

    rate_messages: int = Field(ge=0)
    rate_bytes: int = Field(ge=0)


def make_app(worker: Worker, registry: CollectorRegistry, *, stopping: Callable[[], bool]) -> FastAPI:
    """The application; reading is GET, and only PUT /rates changes something."""
    app = FastAPI(title="rocketmq-replicator", version=__version__)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/health/live")
    async def live() -> dict[str, str]:
        return {"status": "up"}

    @app.get("/health/ready")
    async def ready() -> JSONResponse:
        wrong = [topic for topic in topic_status(worker.routes.states) if topic["state"] in ("failed", "waiting")]
        reasons = {topic["topic"]: topic["reason"] for topic in wrong} | worker.routes.problems
        if stopping():
            reasons["worker"] = "it is draining"
        return JSONResponse({"ready": not reasons, "reasons": reasons}, status_code=503 if reasons else 200)

    @app.get("/status")
    async def status() -> dict[str, Any]:
        return {
            "version": __version__,
            "source": worker.identity.source,
            "target": worker.identity.target,
            "topics": topic_status(worker.routes.states),
            "problems": worker.routes.problems,
        }

    @app.get("/status/queues")
    async def queues() -> list[dict[str, Any]]:
        return [queue_status(state) for state in worker.routes.states]

    @app.get("/rates")
    async def rates() -> Rates:
        route = worker.connectors.get(worker.settings.connector).settings
        return Rates(rate_messages=route.rate_messages, rate_bytes=route.rate_bytes)

    @app.put("/rates")
    async def set_rates(wanted: Rates) -> Rates:
        name = worker.settings.connector
        config = worker.connectors.get(name).settings.model_dump(mode="json") | wanted.model_dump()
        worker.connectors.update(name, config)
        await worker.changed()
        return wanted

    return app
