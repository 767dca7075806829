"""Holds what a worker's REST answers, errors too, to what its OpenAPI document promises."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from pydantic import TypeAdapter
from starlette.routing import Match, Route

from replicator.api.answers import Envelope, Errors
from replicator.api.app import make_app
from replicator.api.brokers import broker_routes
from replicator.api.connectors import connector_routes
from replicator.api.group import group_routes
from replicator.api.logs import log_routes
from replicator.api.overview import overview_routes
from replicator.api.sync import sync_routes

__all__ = ["check_answer"]

_ERRORS = TypeAdapter(Envelope[Errors])

#: Statuses that `default` stands for, at any path.
_ANYWHERE = (405, 413, 500)


class _Promise(NamedTuple):
    """What answers of a route are held to by their status; None where the document has no schema."""

    route: Route
    answers: dict[int, TypeAdapter[Any] | None]


@cache
def _promises() -> list[_Promise]:
    async def no_metrics() -> bytes:
        return b""

    nobody = cast("Any", SimpleNamespace(connectors=None))
    app = make_app(nobody, metrics=no_metrics, stopping=lambda: False)
    routers = (
        *(connector_routes(nobody), group_routes(nobody), sync_routes(nobody)),
        *(broker_routes(nobody), log_routes(), overview_routes(nobody, closing=bool)),
    )
    found = (*app.routes, *(route for router in routers for route in router.routes))
    # The document itself and its viewers are plain routes.
    return [_Promise(route, _answers(route)) for route in found if isinstance(route, Route)]


def _answers(route: Route) -> dict[int, TypeAdapter[Any] | None]:
    model = getattr(route, "response_model", None)
    found: dict[int, TypeAdapter[Any] | None] = {200: TypeAdapter(model) if model else None}
    for status, response in getattr(route, "responses", {}).items():
        if "model" in response and status != "default":
            found[status] = TypeAdapter(response["model"])
    return found


def check_answer(method: str, path: str, raw: bytes, status: int = 200) -> None:
    """Raises an error if the answer is not as the document says.

    Raises:
        ValidationError: the body is of another form.
        LookupError: the path, or this status of it, is not in the document.
    """
    scope = {"type": "http", "method": method, "path": unquote(urlsplit(path).path), "headers": []}
    answers = next((each.answers for each in _promises() if each.route.matches(scope)[0] is Match.FULL), None)
    if status in _ANYWHERE or (answers is None and status in (401, 404)):
        _ERRORS.validate_json(raw, strict=True)
    elif answers is None or status not in answers:
        raise LookupError(f"{method} {path} with status {status} is not in the document")
    elif (answer := answers[status]) is not None:
        answer.validate_json(raw, strict=True)
