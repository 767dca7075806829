"""The HTTP application of a worker: its own state, metrics and health, and those of the whole group."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST

from replicator import __version__
from replicator.admin.overview import Overview
from replicator.aio.clock import now
from replicator.api import answers
from replicator.api.actor import install_actor
from replicator.api.brokers import broker_routes
from replicator.api.connectors import connector_routes
from replicator.api.envelope import install
from replicator.api.group import group_routes
from replicator.api.logs import log_routes
from replicator.api.overview import overview_routes
from replicator.api.responses import Responses, errors
from replicator.api.sync import sync_routes
from replicator.connector.status import queue_status, topic_status
from replicator.observe.topic_history import TopicHistory
from replicator.routing.state import Phase
from replicator.state.connector_configs import State
from replicator.worker.worker import Worker

__all__ = ["make_app"]

#: States of a topic in which its messages do not arrive.
_UNREADY: Final = (Phase.FAILED, Phase.WAITING, Phase.UNASSIGNED)
#: Seconds after which a queue that recovers stands still: it reads the target's tail, which takes moments.
_RECOVERED: Final = 5.0
_TEXT: Final[Responses] = {200: {"content": {"text/plain": {}}}}
_NOT_READY: Final[Responses] = {503: {"model": answers.Ready, "description": "The worker is not ready."}}


def make_app(
    worker: Worker,
    *,
    metrics: Callable[[], Awaitable[bytes]],
    stopping: Callable[[], bool],
    overview: Overview | None = None,
    closing: Callable[[], bool] = lambda: False,
) -> FastAPI:
    """The application behind `Guard`; reading is GET. FastAPI's own pages would load scripts of others.

    Args:
        metrics: returns the page /metrics.
        stopping: whether the worker drains.
        overview: what is shared with the page for people.
        closing: whether HTTP ends.
    """
    app = FastAPI(title="rocketmq-replicator", version=__version__, docs_url=None, redoc_url=None)
    install(app)
    install_actor(app)
    routers = [routes(worker) for routes in (connector_routes, group_routes, sync_routes, broker_routes)]
    routers += [overview_routes(overview or Overview(worker, TopicHistory()), closing=closing), log_routes()]
    for router in routers:
        # include_router makes all routes once more, while the event loop waits for the first request's answer.
        app.router.routes.extend(router.routes)

    @app.get(
        "/metrics",
        tags=["worker"],
        response_class=Response,
        responses=errors(token=False) | _TEXT,
    )
    async def metrics_page() -> Response:
        """Metrics of this worker, for Prometheus."""
        return Response(await metrics(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/health/live", tags=["worker"], responses=errors(token=False))
    async def live() -> dict[str, str]:
        """Answers while the process serves HTTP."""
        return {"status": "up"}

    @app.get(
        "/health/ready",
        tags=["worker"],
        response_model=answers.Ready,
        responses=errors(token=False) | _NOT_READY,
    )
    async def ready() -> JSONResponse:
        """Whether this worker is in its group and all topics that it reports are copied; 503 if not."""
        reasons = _unready(worker, stopping=stopping())
        return JSONResponse({"ready": not reasons, "reasons": reasons}, status_code=503 if reasons else 200)

    @app.get("/status", tags=["worker"], response_model=answers.WorkerStatus, responses=errors())
    async def status() -> JSONResponse:
        """What this worker does; for the whole group see /getClusterInfo and /connectors.

        `waiting_for` is a job that copies the same queues, or `the source`: the worker joins its group when that
        job ends, or the source is back.
        `control_messages_ignored` are messages on the system topics that this worker does not believe, by reason.
        """
        return JSONResponse(
            {
                "version": __version__,
                "worker": worker.id,
                "source": worker.identity.source,
                "target": worker.identity.target,
                "waiting_for": worker.group.waiting_for,
                "control_messages_ignored": worker.ignored_messages,
                "topics": topic_status(worker.queues),
                "problems": worker.routes.problems,
            }
        )

    @app.get("/status/queues", tags=["worker"], response_model=list[answers.QueueStatus], responses=errors())
    async def queues() -> JSONResponse:
        """Each queue that this worker copies, and the paused, stopped and unassigned ones if it leads."""
        return JSONResponse([queue_status(state) for state in worker.queues])

    return app


def _unready(worker: Worker, *, stopping: bool) -> dict[str, str]:
    """Why messages do not arrive, by topic, by connector, or of the worker as a whole."""
    topics = topic_status(worker.queues)
    wrong = [topic for topic in topics if topic["stalled"] or topic["state"] in _UNREADY]
    reasons = {
        state.topic: f"recovering for {now() - state.held_at:.0f} s: {state.reason or 'it reads what arrived'}"
        for state in worker.queues
        if state.phase is Phase.RECOVERING and state.held_at is not None and now() - state.held_at > _RECOVERED
    }
    reasons |= {topic["topic"]: topic["reason"] or "stalled" for topic in wrong} | worker.routes.problems
    for connector in worker.connectors.all().values():
        if connector.state is not State.RUNNING:
            reasons[connector.name] = f"the connector is {connector.state.lower()}: resume it to copy again"
    if stopping:
        reasons["worker"] = "the worker is draining"
    elif worker.standby is not None:
        reasons["worker"] = f"the source is away, so nothing is copied: {worker.standby.reason}"
    elif worker.group.waiting_for:
        reasons["worker"] = f"the worker waits for {worker.group.waiting_for} to end"
    elif not worker.may_send():
        reasons["worker"] = "the worker does not reach its group: none of its own heartbeats comes back"
    elif worker.id not in worker.coordinator.assignment.members:
        reasons["worker"] = _unassigned(worker)
    return reasons


def _unassigned(worker: Worker) -> str:
    """Why this worker takes part in no assignment."""
    able = worker.coordinator.takes_tasks()
    if worker.id not in able:
        return "the worker gets no tasks: it does not reach the target"
    return (
        f"the worker gets no tasks: {min(able)} leads the group and has not assigned any to it; if that goes on,"
        " see whether there is such a worker, and sign the group's messages (worker_group_secret_file)"
    )
