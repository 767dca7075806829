"""REST for connectors, with RocketMQ Connect's paths. GET only reads; other methods change something."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from replicator.admin.group_view import GroupView
from replicator.admin.message_lookup import by_key, by_offset
from replicator.api import answers
from replicator.api.checking import refuse_rivals, refuse_wrong
from replicator.api.envelope import Rebalancing, answer
from replicator.errors import ConfigError
from replicator.routing.queue_map import Queue
from replicator.settings import RouteSettings
from replicator.state.connector_configs import Connector, State, Unknown
from replicator.worker.worker import Worker

__all__ = ["connector_routes"]

#: Seconds that a change waits for a rebalance to end before it is refused.
_PATIENCE = 3.0

Config = dict[str, Any]


class Rates(BaseModel):
    """Limits of a connector over all workers, per second; 0 is no limit."""

    model_config = ConfigDict(extra="forbid")

    rate_messages: int = Field(ge=0)
    rate_bytes: int = Field(ge=0)


def connector_routes(worker: Worker) -> APIRouter:
    """All paths that start with /connectors."""
    routes = APIRouter(tags=["connectors"])
    _add_states(routes, worker)
    _add_configurations(routes, worker)
    _add_views(routes, worker)
    _add_rates(routes, worker)
    _add_lookups(routes, worker)
    return routes


async def _change(worker: Worker, do: Callable[[], Connector | None]) -> Connector | None:
    """Makes a change once no rebalance is under way, and publishes it to the group."""
    deadline = asyncio.get_running_loop().time() + _PATIENCE
    while worker.coordinator.changing_hands:
        if asyncio.get_running_loop().time() > deadline:
            raise Rebalancing("a rebalance is under way", hint="try again in a second")
        await asyncio.sleep(0.05)
    changed = do()
    await worker.changed()
    return changed


def _add_states(routes: APIRouter, worker: Worker) -> None:
    """Pause, resume, stop and restart. The paths for all connectors come before those of one."""
    connectors, view = worker.connectors, GroupView(worker)

    async def set_state(name: str, state: State) -> None:
        if state is State.RUNNING:
            refuse_rivals(worker, name, connectors.get(name).settings)
        await _change(worker, lambda: connectors.set_state(name, state))

    async def set_one(name: str, state: State) -> JSONResponse:
        await set_state(name, state)
        return answer({"name": name, "state": state})

    async def set_all(state: State) -> JSONResponse:
        names = list(connectors.all())
        for name in names:
            await set_state(name, state)
        return answer(dict.fromkeys(names, state.value))

    @routes.put("/connectors/stop/all", response_model=answers.Envelope[dict[str, str]])
    async def stop_all() -> JSONResponse:
        return await set_all(State.STOPPED)

    @routes.put("/connectors/pause/all", response_model=answers.Envelope[dict[str, str]])
    async def pause_all() -> JSONResponse:
        return await set_all(State.PAUSED)

    @routes.put("/connectors/resume/all", response_model=answers.Envelope[dict[str, str]])
    async def resume_all() -> JSONResponse:
        refused = []
        for name, connector in connectors.all().items():
            if connector.state is State.RUNNING:
                continue
            try:
                await set_state(name, State.RUNNING)
            except ConfigError as error:
                refused.append(f"connector {name} was not resumed, all others were: {error.message}")
        if refused:
            raise ConfigError("\n".join(refused))
        return answer(dict.fromkeys(connectors.all(), State.RUNNING.value))

    @routes.put("/connectors/{name}/stop", response_model=answers.Envelope[answers.NamedState])
    async def stop(name: str) -> JSONResponse:
        return await set_one(name, State.STOPPED)

    @routes.put("/connectors/{name}/pause", response_model=answers.Envelope[answers.NamedState])
    async def pause(name: str) -> JSONResponse:
        return await set_one(name, State.PAUSED)

    @routes.put("/connectors/{name}/resume", response_model=answers.Envelope[answers.NamedState])
    async def resume(name: str) -> JSONResponse:
        return await set_one(name, State.RUNNING)

    @routes.post("/connectors/{name}/restart", response_model=answers.Envelope[answers.NamedState])
    async def restart(name: str) -> JSONResponse:
        await _change(worker, lambda: connectors.restart(name))
        return answer({"name": name, "state": connectors.get(name).state})

    @routes.post("/connectors/{name}/tasks/{task:path}/restart", response_model=answers.Envelope[answers.Task])
    async def restart_task(name: str, task: str) -> JSONResponse:
        """Restarts one task, on whichever worker it runs."""
        _task_of(view, connectors.get(name), task)
        await _change(worker, lambda: connectors.restart_task(name, task))
        return answer(_task_of(view, connectors.get(name), task))


def _add_configurations(routes: APIRouter, worker: Worker) -> None:
    """Create, change and delete."""
    connectors, view = worker.connectors, GroupView(worker)

    @routes.post("/connectors/{name}", response_model=answers.Envelope[answers.ConnectorInfo])
    async def create(name: str, config: Config) -> JSONResponse:
        refuse_rivals(worker, name, await refuse_wrong(worker, name, config))
        known = name in connectors.all()
        await _change(worker, lambda: connectors.create(name, config))
        return answer(view.info(connectors.get(name)), 200 if known else 201)

    @routes.put("/connectors/{name}", response_model=answers.Envelope[answers.ConnectorInfo])
    async def update(name: str, config: Config) -> JSONResponse:
        refuse_rivals(worker, name, await refuse_wrong(worker, name, config))
        await _change(worker, lambda: connectors.update(name, config))
        return answer(view.info(connectors.get(name)))

    @routes.delete("/connectors/{name}", response_model=answers.Envelope[None])
    async def delete(name: str) -> JSONResponse:
        await _change(worker, lambda: connectors.delete(name))
        return answer(None)


def _add_views(routes: APIRouter, worker: Worker) -> None:
    """Configuration, tasks and status of connectors."""
    connectors, view = worker.connectors, GroupView(worker)

    @routes.get("/connectors/list", response_model=answers.Envelope[answers.ConnectorList])
    async def all_connectors() -> JSONResponse:
        found = connectors.all().items()
        return answer({name: {"status": view.status(each), "info": view.info(each)} for name, each in found})

    @routes.get("/connectors/{name}", response_model=answers.Envelope[answers.ConnectorInfo])
    async def info(name: str) -> JSONResponse:
        return answer(view.info(connectors.get(name)))

    @routes.get("/connectors/{name}/config", response_model=answers.Envelope[dict[str, Any]])
    async def config(name: str) -> JSONResponse:
        return answer(connectors.get(name).config)

    @routes.get("/connectors/{name}/status", response_model=answers.Envelope[answers.ConnectorStatus])
    async def status(name: str) -> JSONResponse:
        return answer(view.status(connectors.get(name)))

    @routes.get("/connectors/{name}/tasks", response_model=answers.Envelope[list[answers.Task]])
    async def tasks(name: str) -> JSONResponse:
        return answer(view.tasks(connectors.get(name)))

    @routes.get("/connectors/{name}/tasks/{task:path}/status", response_model=answers.Envelope[answers.Task])
    async def task_status(name: str, task: str) -> JSONResponse:
        return answer(_task_of(view, connectors.get(name), task))


def _add_rates(routes: APIRouter, worker: Worker) -> None:
    """The limits of a route."""
    connectors = worker.connectors

    @routes.get("/connectors/{name}/rates", response_model=answers.Envelope[answers.RatesShown])
    async def rates(name: str) -> JSONResponse:
        route = connectors.get(name).settings
        if not isinstance(route, RouteSettings):
            raise Unknown(f"connector {name!r} has no rates", hint="only routing connectors have them")
        return answer({"rate_messages": route.rate_messages, "rate_bytes": route.rate_bytes})

    @routes.put("/connectors/{name}/rates", response_model=answers.Envelope[answers.RatesShown])
    async def set_rates(name: str, wanted: Rates) -> JSONResponse:
        config = connectors.get(name).config | wanted.model_dump()
        await _change(worker, lambda: connectors.update(name, config))
        return answer(wanted.model_dump())


def _add_lookups(routes: APIRouter, worker: Worker) -> None:
    """Where queues and messages are."""
    connectors, view = worker.connectors, GroupView(worker)

    @routes.get("/connectors/{name}/queues", response_model=answers.Envelope[list[answers.QueueMapping]])
    async def queues(name: str, topic: str | None = None) -> JSONResponse:
        return answer(view.queues(connectors.get(name), topic))

    @routes.get("/connectors/{name}/where", response_model=answers.Envelope[answers.Location])
    async def where(
        name: str,
        topic: str,
        broker: str,
        queue: int,
        offset: int,
        side: Literal["source", "target"] = "source",
    ) -> JSONResponse:
        """Finds the message at an offset of one side on the other side; `topic` is its name at the source."""
        return answer(await by_offset(worker, connectors.get(name), topic, Queue(broker, queue), offset, side))

    @routes.get("/connectors/{name}/where/key", response_model=answers.Envelope[list[answers.CopyOfKey]])
    async def where_key(name: str, topic: str, key: str) -> JSONResponse:
        """Finds the copies of all messages with `key`, and the messages that they are copies of."""
        return answer(await by_key(worker, connectors.get(name), topic, key))


def _task_of(view: GroupView, connector: Connector, task: str) -> dict[str, Any]:
    for found in view.tasks(connector):
        if found["id"] == task:
            return found
    tasks = ", ".join(each["id"] for each in view.tasks(connector)[:10]) or "none"
    raise Unknown(f"connector {connector.name!r} has no task {task!r}", hint=f"it has: {tasks}")
