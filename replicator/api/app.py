"""The HTTP application of a worker: all that it answers, of itself and of the whole group."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from replicator import __version__
from replicator.admin.overview import Overview
from replicator.api.actor import install_actor
from replicator.api.brokers import broker_routes
from replicator.api.connectors import connector_routes
from replicator.api.envelope import install
from replicator.api.field_meanings import PARAMETERS
from replicator.api.group import group_routes
from replicator.api.logs import log_routes
from replicator.api.overview import overview_routes
from replicator.api.sync import sync_routes
from replicator.api.worker import worker_routes
from replicator.observe.topic_history import TopicHistory
from replicator.worker.worker import Worker

__all__ = ["make_app"]


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
    routers.append(worker_routes(worker, metrics=metrics, stopping=stopping))
    for router in routers:
        # include_router makes all routes once more, while the event loop waits for the first request's answer.
        app.router.routes.extend(map(_named, router.routes))
    return app


def _named(route: BaseRoute) -> BaseRoute:
    """As generated clients call it: by its function's name, with parameters that are described."""
    if isinstance(route, APIRoute):
        route.operation_id, route.summary = route.name, route.name.replace("_", " ").capitalize()
        given = route.dependant
        for parameter in (*given.path_params, *given.query_params, *given.header_params):
            parameter.field_info.description = parameter.field_info.description or PARAMETERS[parameter.name]
    return route
