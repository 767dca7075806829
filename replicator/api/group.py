"""REST for the group and its plugins, with RocketMQ Connect's paths."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from replicator import __version__
from replicator.admin.group_view import GroupView
from replicator.api import answers
from replicator.api.checking import refuse_wrong
from replicator.api.envelope import answer
from replicator.api.responses import enveloped
from replicator.errors import ConfigError
from replicator.group.assignment import STRATEGIES
from replicator.plugins.installed import ASSIGNMENTS, CONNECTORS, TRANSFORMS, installed, version
from replicator.plugins.registry import kind, load
from replicator.plugins.transforms import load_transform
from replicator.settings import RouteSettings, setting_fields
from replicator.state.connector_configs import Unknown
from replicator.worker.worker import Worker

__all__ = ["group_routes"]

_ROUTING = {"class": "routing", "type": "ROUTE", "version": __version__}


def group_routes(worker: Worker) -> APIRouter:
    """/getClusterInfo, /allocated and /plugin."""
    routes = APIRouter(tags=["group"])
    view = GroupView(worker)

    @routes.get("/getClusterInfo", **enveloped(answers.Cluster))
    async def get_cluster_info() -> JSONResponse:
        """The group: its workers, its leader, and whether a rebalance is under way."""
        return answer(view.cluster())

    @routes.get("/allocated/connectors", **enveloped(dict[str, list[str]]))
    async def list_allocated_connectors() -> JSONResponse:
        """The connectors whose tasks each worker has."""
        allocated = view.allocated().items()
        return answer({name: sorted({task["connector"] for task in tasks}) for name, tasks in allocated})

    @routes.get("/allocated/tasks", **enveloped(dict[str, list[answers.TaskOfWorker]]))
    async def list_allocated_tasks() -> JSONResponse:
        """The tasks of each worker."""
        return answer(view.allocated())

    @routes.get("/plugin/list", **enveloped(list[answers.Plugin]))
    async def list_plugins() -> JSONResponse:
        """The connectors, transforms and assignment strategies that are installed at this worker."""
        return answer([*_connectors(), *_transforms(), *_strategies()])

    @routes.get("/plugin/list/connectors", **enveloped(list[answers.Plugin]))
    async def list_connector_plugins() -> JSONResponse:
        """The connectors that are installed at this worker."""
        return answer(_connectors())

    @routes.get("/plugin/config", **enveloped(list[answers.Option], 404))
    async def get_plugin_config(name: str = "routing") -> JSONResponse:
        """The settings of a connector or transform; without `name` those of a route."""
        try:
            model = RouteSettings if name == "routing" else _model(name)
        except ConfigError as error:
            raise Unknown(error.message) from None
        return answer([_described(name, field) for name, field in setting_fields(model)])

    @routes.put("/plugin/config/validate", **enveloped(answers.Validation, 400, 503))
    async def validate_config(config: dict[str, Any]) -> JSONResponse:
        """Checks a configuration without creating a connector."""
        try:
            await refuse_wrong(worker, "validated", config)
        except ConfigError as error:
            return answer({"valid": False, "errors": error.message.splitlines()})
        return answer({"valid": True, "errors": []})

    @routes.post("/plugin/reload", **enveloped(list[answers.Plugin]))
    async def reload_plugins() -> JSONResponse:
        """Lists the plugins that are installed now; nothing is cached, so there is nothing to reload."""
        return answer([*_connectors(), *_transforms(), *_strategies()])

    return routes


def _model(name: str) -> type[BaseModel]:
    return load_transform(name).config if name in installed(TRANSFORMS) else load(name).config


def _connectors() -> list[dict[str, str]]:
    found = [_ROUTING]
    for name, entry in installed(CONNECTORS).items():
        try:
            type_ = kind(load(name))
        except ConfigError:
            type_ = "BROKEN"  # its configurations are refused, with the reason
        found.append({"class": name, "type": type_, "version": version(entry)})
    return found


def _transforms() -> list[dict[str, str]]:
    found = []
    for name, entry in installed(TRANSFORMS).items():
        try:
            load_transform(name)
            type_ = "TRANSFORM"
        except ConfigError:
            type_ = "BROKEN"
        found.append({"class": name, "type": type_, "version": version(entry)})
    return found


def _strategies() -> list[dict[str, str]]:
    ours = [{"class": name, "type": "ASSIGNMENT", "version": __version__} for name in STRATEGIES]
    return ours + [
        {"class": name, "type": "ASSIGNMENT", "version": version(entry)}
        for name, entry in installed(ASSIGNMENTS).items()
    ]


def _described(name: str, field: FieldInfo) -> dict[str, Any]:
    required = field.is_required()
    return {
        "name": name,
        "default": None if required else field.default,
        "documentation": field.description,
        "required": required,
    }
