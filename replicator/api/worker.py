"""REST of one worker: its metrics, its health and its own state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST

from replicator import __version__
from replicator.admin.overview import SPLIT
from replicator.aio.clock import now
from replicator.api import answers
from replicator.api.responses import Responses, errors
from replicator.connector.status import queue_status, topic_status
from replicator.routing.state import Phase
from replicator.routing.task_id import TaskId
from replicator.state.connector_configs import State
from replicator.worker.worker import Worker

__all__ = ["worker_routes"]

#: States of a topic in which its messages do not arrive.
_UNREADY: Final = (Phase.FAILED, Phase.WAITING, Phase.UNASSIGNED)
#: Seconds after which a queue that recovers stands still: it reads the target's tail, which takes moments.
_RECOVERED: Final = 5.0
_TEXT: Final[Responses] = {200: {"content": {"text/plain": {}}}}
_NOT_READY: Final[Responses] = {503: {"model": answers.Ready, "description": "The worker is not ready."}}


def worker_routes(
    worker: Worker, *, metrics: Callable[[], Awaitable[bytes]], stopping: Callable[[], bool]
) -> APIRouter:
    """Metrics, health and state; arguments as of `make_app`."""
    router = APIRouter(tags=["worker"])

    @router.get(
        "/metrics",
        response_class=Response,
        responses=errors(token=False) | _TEXT,
    )
    async def get_metrics() -> Response:
        """Metrics of this worker, for Prometheus."""
        return Response(await metrics(), media_type=CONTENT_TYPE_LATEST)

    @router.get("/health/live", responses=errors(token=False))
    async def get_liveness() -> dict[str, str]:
        """Answers while the process serves HTTP."""
        return {"status": "up"}

    @router.get(
        "/health/ready",
        response_model=answers.Ready,
        responses=errors(token=False) | _NOT_READY,
    )
    async def get_worker_readiness() -> JSONResponse:
        """Whether this worker is in its group and all topics that it reports are copied; 503 if not."""
        reasons = _unready(worker, stopping=stopping())
        return JSONResponse({"ready": not reasons, "reasons": reasons}, status_code=503 if reasons else 200)

    @router.get("/status", response_model=answers.WorkerStatus, responses=errors())
    async def get_status() -> JSONResponse:
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

    @router.get("/status/queues", response_model=list[answers.QueueStatus], responses=errors())
    async def list_queues() -> JSONResponse:
        """Each queue that this worker copies, and the paused, stopped and unassigned ones if it leads."""
        return JSONResponse([queue_status(state) for state in worker.queues])

    return router


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
    reasons |= _without_owner(worker)
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
    elif worker.group.is_split:
        reasons["worker"] = SPLIT
    elif worker.id not in worker.coordinator.assignment.members:
        reasons["worker"] = _unassigned(worker)
    return reasons


def _without_owner(worker: Worker) -> dict[str, str]:
    """Connectors with tasks that nobody has for longer than it takes to assign them."""
    settings, found = worker.settings, defaultdict[str, dict[str, float]](dict)
    # The one until a dead owner or leader is missed, the other until the leader knows a new topic, too.
    longest = settings.session_timeout + settings.metadata_refresh_interval
    for task, seconds in worker.unowned.older(longest, now()).items():
        found[TaskId.parse(task).connector][task] = seconds
    return {name: _nobodys(worker, tasks) for name, tasks in found.items()}


def _nobodys(worker: Worker, tasks: Mapping[str, float]) -> str:
    """What is said of a connector's `tasks` that nobody has, each for so many seconds."""
    what, them = (f"its task {min(tasks)}", "it") if len(tasks) == 1 else (f"{len(tasks)} of its tasks", "them")
    able = worker.coordinator.takes_tasks()
    why = _not_assigned(min(able), them) if able else "no worker reaches the target"
    return f"no worker has {what}, for {max(tasks.values()):.0f} s now: {why}"


def _unassigned(worker: Worker) -> str:
    """Why this worker takes part in no assignment."""
    able = worker.coordinator.takes_tasks()
    if worker.id not in able:
        return "the worker gets no tasks: it does not reach the target"
    return f"the worker gets no tasks: {_not_assigned(min(able), 'any to it')}"


def _not_assigned(leader: str, what: str) -> str:
    return (
        f"{leader} leads the group and has not assigned {what}; if that goes on,"
        " see whether there is such a worker, and sign the group's messages (worker_group_secret_file)"
    )
