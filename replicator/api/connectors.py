"""REST for connectors, with RocketMQ Connect's paths. GET only reads; other methods change something."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field

from replicator.admin import changes
from replicator.admin.group_view import GroupView
from replicator.admin.message_lookup import by_key, by_offset
from replicator.api import answers
from replicator.api.checking import refuse_wrong
from replicator.api.envelope import answer
from replicator.api.field_meanings import Described
from replicator.api.responses import enveloped
from replicator.errors import ConfigError
from replicator.routing.queue_map import Queue
from replicator.state.connector_configs import State
from replicator.worker.worker import Worker

__all__ = ["connector_routes"]

Config = dict[str, Any]


class Rates(Described):
    """Limits of a connector over all workers, per second; 0 is no limit."""

    model_config = ConfigDict(extra="forbid")

    rate_messages: int = Field(ge=0)
    rate_bytes: int = Field(ge=0)


def connector_routes(worker: Worker) -> APIRouter:
    """All paths that start with /connectors."""
    routes = APIRouter(tags=["connectors"])
    _add_states_of_all(routes, worker)
    _add_states(routes, worker)
    _add_configurations(routes, worker)
    _add_views(routes, worker)
    _add_rates(routes, worker)
    _add_lookups(routes, worker)
    return routes


def _add_states_of_all(routes: APIRouter, worker: Worker) -> None:
    """Pause, resume and stop of all connectors: these paths must come before those of one."""

    async def set_all(state: State) -> JSONResponse:
        done, refused = await changes.set_states(worker, state)
        if refused:
            raise ConfigError("\n".join(refused))
        return answer(dict.fromkeys(done, state.value))

    @routes.put("/connectors/stop/all", **enveloped(dict[str, str], 409, 503))
    async def stop_connectors() -> JSONResponse:
        """Stops all connectors."""
        return await set_all(State.STOPPED)

    @routes.put("/connectors/pause/all", **enveloped(dict[str, str], 409, 503))
    async def pause_connectors() -> JSONResponse:
        """Pauses all connectors."""
        return await set_all(State.PAUSED)

    @routes.put("/connectors/resume/all", **enveloped(dict[str, str], 400, 409, 503))
    async def resume_connectors() -> JSONResponse:
        """Lets all connectors run that may; the error names the others."""
        return await set_all(State.RUNNING)


def _add_states(routes: APIRouter, worker: Worker) -> None:
    """Pause, resume, stop and restart of one connector or task."""
    connectors = worker.connectors

    async def set_one(name: str, state: State) -> JSONResponse:
        await changes.set_state(worker, name, state)
        return answer({"name": name, "state": state})

    @routes.put("/connectors/{name}/stop", **enveloped(answers.NamedState, 404, 409, 503))
    async def stop_connector(name: str) -> JSONResponse:
        """Stops a connector: its tasks end and have no owner."""
        return await set_one(name, State.STOPPED)

    @routes.put("/connectors/{name}/pause", **enveloped(answers.NamedState, 404, 409, 503))
    async def pause_connector(name: str) -> JSONResponse:
        """Pauses a connector: its tasks end and keep their owners."""
        return await set_one(name, State.PAUSED)

    @routes.put("/connectors/{name}/resume", **enveloped(answers.NamedState, 400, 404, 409, 503))
    async def resume_connector(name: str) -> JSONResponse:
        """Lets a connector run that was paused or stopped."""
        return await set_one(name, State.RUNNING)

    @routes.post("/connectors/{name}/restart", **enveloped(answers.NamedState, 404, 409, 503))
    async def restart_connector(name: str) -> JSONResponse:
        """Restarts all tasks of a connector; one that is paused or stopped stays so."""
        await changes.change(worker, lambda: connectors.restart(name))
        return answer({"name": name, "state": connectors.get(name).state})

    @routes.post("/connectors/{name}/tasks/{task:path}/restart", **enveloped(answers.Task, 404, 409, 503))
    async def restart_task(name: str, task: str) -> JSONResponse:
        """Restarts one task, on whichever worker it runs."""
        return answer(await changes.restart_task(worker, name, task))


def _add_configurations(routes: APIRouter, worker: Worker) -> None:
    """Create, change and delete."""
    connectors, view = worker.connectors, GroupView(worker)
    creating = enveloped(answers.ConnectorInfo, 400, 409, 503)
    creating["responses"][201] = {"model": creating["response_model"], "description": "It was created."}

    @routes.post("/connectors/{name}", **creating)
    async def create_connector(name: str, config: Config) -> JSONResponse:
        """Creates a connector from its configuration; 200 if it exists with the same one, 201 if it is new."""
        changes.refuse_rivals(worker, name, await refuse_wrong(worker, name, config))
        known = name in connectors.all()
        await changes.change(worker, lambda: connectors.create(name, config))
        return answer(view.info(connectors.get(name)), 200 if known else 201)

    @routes.put("/connectors/{name}", **enveloped(answers.ConnectorInfo, 400, 409, 503))
    async def update_connector(name: str, config: Config) -> JSONResponse:
        """Replaces a connector's configuration, or creates the connector."""
        changes.refuse_rivals(worker, name, await refuse_wrong(worker, name, config))
        await changes.change(worker, lambda: connectors.update(name, config))
        return answer(view.info(connectors.get(name)))

    @routes.delete("/connectors/{name}", **enveloped(None, 409, 503))
    async def delete_connector(name: str) -> JSONResponse:
        """Deletes a connector and its progress, not what it has copied; 200 also if there is none."""
        await changes.change(worker, lambda: connectors.delete(name))
        return answer(None)


def _add_views(routes: APIRouter, worker: Worker) -> None:
    """Configuration, tasks and status of connectors."""
    connectors, view = worker.connectors, GroupView(worker)

    @routes.get("/connectors/list", **enveloped(answers.ConnectorList))
    async def list_connectors() -> JSONResponse:
        """All connectors by name, each with its configuration, tasks and status."""
        found = connectors.all().items()
        return answer({name: {"status": view.status(each), "info": view.info(each)} for name, each in found})

    @routes.get("/connectors/{name}", **enveloped(answers.ConnectorInfo, 404))
    async def get_connector(name: str) -> JSONResponse:
        """The configuration and tasks of a connector."""
        return answer(view.info(connectors.get(name)))

    @routes.get("/connectors/{name}/config", **enveloped(dict[str, Any], 404))
    async def get_connector_config(name: str) -> JSONResponse:
        """The configuration of a connector, with defaults."""
        return answer(connectors.get(name).config)

    @routes.get("/connectors/{name}/status", **enveloped(answers.ConnectorStatus, 404))
    async def get_connector_status(name: str) -> JSONResponse:
        """The state of a connector, its tasks and topics, and why topics cannot be copied."""
        return answer(view.status(connectors.get(name)))

    @routes.get("/connectors/{name}/tasks", **enveloped(list[answers.Task], 404))
    async def list_tasks(name: str) -> JSONResponse:
        """The tasks of a connector, each with its worker, its state and why it failed."""
        return answer(view.tasks(connectors.get(name)))

    @routes.get("/connectors/{name}/tasks/{task:path}/status", **enveloped(answers.Task, 404))
    async def get_task_status(name: str, task: str) -> JSONResponse:
        """One task of a connector."""
        return answer(changes.task_of(worker, name, task))


def _add_rates(routes: APIRouter, worker: Worker) -> None:
    """The limits of a route."""

    @routes.get("/connectors/{name}/rates", **enveloped(answers.RatesShown, 404))
    async def get_rates(name: str) -> JSONResponse:
        """The rate limits of a route, over all workers."""
        return answer(changes.rates_of(worker, name))

    @routes.put("/connectors/{name}/rates", **enveloped(answers.RatesShown, 400, 404, 409, 503))
    async def set_rates(name: str, wanted: Rates) -> JSONResponse:
        """Changes the rate limits of a route; its tasks are not restarted."""
        return answer(await changes.set_rates(worker, name, **wanted.model_dump()))


def _add_lookups(routes: APIRouter, worker: Worker) -> None:
    """Where queues and messages are."""
    connectors, view = worker.connectors, GroupView(worker)

    @routes.get("/connectors/{name}/queues", **enveloped(list[answers.QueueMapping], 404))
    async def list_connector_queues(name: str, topic: str | None = None) -> JSONResponse:
        """The queue map of all topics or of one, with the position of each queue."""
        return answer(view.queues(connectors.get(name), topic))

    @routes.get("/connectors/{name}/where", **enveloped(answers.Location, 400, 404, 503))
    async def find_copy(
        name: str,
        topic: str,
        broker: str,
        queue: int,
        offset: int,
        side: Literal["source", "target"] = "source",
    ) -> JSONResponse:
        """Finds the message at an offset of one side on the other side; `topic` is its name at the source."""
        return answer(await by_offset(worker, connectors.get(name), topic, Queue(broker, queue), offset, side))

    @routes.get("/connectors/{name}/where/key", **enveloped(list[answers.CopyOfKey], 400, 404, 503))
    async def find_copies_of_key(name: str, topic: str, key: str) -> JSONResponse:
        """Finds the copies of all messages with `key`, and the messages that they are copies of."""
        return answer(await by_key(worker, connectors.get(name), topic, key))
