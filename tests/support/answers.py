"""Holds what a worker's REST answers to what its OpenAPI document promises."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from pydantic import TypeAdapter
from starlette.routing import Match, Route

from replicator.api.app import make_app
from replicator.api.connectors import connector_routes
from replicator.api.group import group_routes
from replicator.api.logs import log_routes
from replicator.api.sync import sync_routes

__all__ = ["check_answer"]


@cache
def _routes() -> list[tuple[Route, TypeAdapter[Any] | None]]:
    """All routes, each with what its answers are held to: None where the document has no schema of its answer."""

    async def no_metrics() -> bytes:
        return b""

    nobody = cast("Any", SimpleNamespace(connectors=None))
    app = make_app(nobody, metrics=no_metrics, stopping=lambda: False, token=None)
    routers = (connector_routes(nobody), group_routes(nobody), sync_routes(nobody), log_routes())
    found = (*app.routes, *(route for router in routers for route in router.routes))
    # The document itself and its viewers are plain routes.
    routes = [route for route in found if isinstance(route, Route)]
    models = [getattr(route, "response_model", None) for route in routes]
    return [(route, TypeAdapter(model) if model else None) for route, model in zip(routes, models, strict=True)]


def check_answer(method: str, path: str, raw: bytes) -> None:
    """Raises a ValidationError where the body of a successful answer is not as the document says."""
    scope = {"type": "http", "method": method, "path": unquote(urlsplit(path).path), "headers": []}
    for route, answer in _routes():
        if route.matches(scope)[0] is Match.FULL:
            if answer is not None:
                answer.validate_json(raw, strict=True)
            return
    raise LookupError(f"{method} {path} is not in the document")
