"""The page as an application: its views, its forms, and how errors look."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from replicator.admin.overview import Overview
from replicator.api.access import READING
from replicator.api.envelope import status_of
from replicator.errors import ReplicatorError
from replicator.page.configuration import ConfigurationForm
from replicator.page.context import PageContext
from replicator.page.dead_letters import DeadLetterViews
from replicator.page.failover_runs import FailoverRuns
from replicator.page.failover_wizard import FailoverWizard
from replicator.page.finder import FinderView
from replicator.page.forms import ACTIONS, ConnectorForms
from replicator.page.group import GroupViews
from replicator.page.rendering import HEADERS, STATIC
from replicator.page.route import RouteViews
from replicator.page.topics import TopicViews
from replicator.worker.worker import Worker

__all__ = ["make_page"]

_BUG: Final = "this is a bug in the replicator: see the worker's log"


class _Static(StaticFiles):
    """The style sheet and the script, asked for again each time whether they are still the same."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        found = await super().get_response(path, scope)
        found.headers.update(HEADERS | {"Cache-Control": "no-cache"})
        return found


def make_page(worker: Worker, overview: Overview) -> Starlette:
    """The application behind `Guard`, for `/` and all below `/page/`."""
    page = PageContext(worker, overview)
    topics, runs = TopicViews(page), FailoverRuns()
    group, route, finder = GroupViews(page, topics), RouteViews(page), FinderView(page)
    letters = DeadLetterViews(page)
    forms, wizard, configuration = ConnectorForms(page), FailoverWizard(page, runs), ConfigurationForm(page)
    views = {
        "/": group.overview,
        "/page/topics": topics.all,
        "/page/topic": topics.one,
        "/page/workers": group.workers,
        "/page/readiness": route.readiness,
        "/page/metadata": route.metadata,
        "/page/errors": group.errors,
        "/page/events": group.events,
        "/page/find": finder.find,
        "/page/dead-letters": letters.show,
        "/page/connector": route.connector,
        "/page/connector/config": configuration.show,
        "/page/failover": wizard.begin,
        "/page/failover/run": wizard.run,
    }

    async def refused(request: Request, error: Exception) -> Response:
        return _refused(page, request, error)

    return Starlette(
        routes=[
            *(Route(path, view, methods=["GET"]) for path, view in views.items()),
            *(_form(f"/page/connectors/{{name}}/{action}", forms.act, action) for action in ACTIONS),
            Route("/page/connectors/{name}/config", configuration.send, methods=["POST"]),
            Route("/page/connectors/{name}/resend", letters.send, methods=["POST"]),
            Route("/page/connectors/{name}/failover", wizard.start, methods=["POST"]),
            Mount("/page/static", _Static(directory=STATIC)),
        ],
        exception_handlers={ReplicatorError: refused, HTTPException: refused, Exception: refused},
    )


def _form(path: str, act: Any, action: str) -> Route:
    async def carried_out(request: Request) -> Response:
        request.path_params["action"] = action
        done: Response = await act(request)
        return done

    return Route(path, carried_out, methods=["POST"])


def _refused(page: PageContext, request: Request, error: Exception) -> Response:
    if isinstance(error, ReplicatorError):
        status, lines, hint = status_of(error), error.message.splitlines(), error.hint
    elif isinstance(error, HTTPException):
        status, lines, hint = error.status_code, [f"There is no view {request.url.path}."], ""
        if status != HTTPStatus.NOT_FOUND:
            lines = [str(error.detail)]
    else:
        status, lines, hint = 500, [f"{type(error).__name__}: {error}"], _BUG
    titles = {404: "Not found", 405: "Not possible", 500: "An error in the replicator"}
    title = titles.get(status, "Not done" if request.method not in READING else "Not possible now")
    back = request.headers.get("referer", "/") if request.method not in READING else "/"
    if not back.startswith(str(request.base_url)):
        back = "/"
    return page.answer(
        request, "refused.html", code=status, live=False, title=title, lines=lines, hint=hint, back=back
    )
