"""The view of dead letters, and the form that sends one again."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from structlog.contextvars import bound_contextvars

from replicator.admin.dead_letter_resend import Resend
from replicator.admin.dead_letters import Latest, dead_letters
from replicator.errors import ConfigError, ReplicatorError
from replicator.page.context import PageContext
from replicator.page.forms import actor_of, fields, outcome_of, sent_to, whole
from replicator.settings import RouteSettings

__all__ = ["DeadLetterViews"]

_PATH: Final = "/page/dead-letters"


class DeadLetterViews:
    """Asks the target, each time that somebody looks."""

    def __init__(self, page: PageContext) -> None:
        self._page = page

    async def show(self, request: Request) -> Response:
        """The latest letters of a route, each with what became of it."""
        page, connector = self._page, self._page.connector(request, route=True)
        assert isinstance(connector.settings, RouteSettings)  # noqa: S101 - it is a route
        latest, problem = Latest([], older=False), None
        try:
            latest = await dead_letters(page.worker, connector.name, connector.settings)
        except ReplicatorError as error:
            problem = error
        return page.answer(
            request,
            "dead_letters.html",
            title="Dead letters",
            connector=connector,
            picks=True,
            live=False,
            letters=latest.letters,
            older=latest.older,
            problem=problem,
            settings=connector.settings,
            done=outcome_of(request),
        )

    async def send(self, request: Request) -> Response:
        """Sends one again; the browser then sees the letters as they are.

        Raises:
            ConfigError: no letter is named.
            Unknown, ConfigError, BeingSent, ClientError: as `Resend.carried_out` says.
        """
        connector = self._page.worker.connectors.get(request.path_params["name"])
        given = await fields(request)
        offset = whole(given.get("offset", ""))
        if offset is None or not given.get("broker"):
            raise ConfigError("no letter is named", hint="press the button of one")
        with bound_contextvars(actor=actor_of(request)):
            found = await Resend(self._page.worker, connector, given["broker"], offset).carried_out()
        place = "{topic}/{broker}/{queue} offset {offset}".format(**found)
        done = f"it was sent before, it is at {place}" if found["already"] else f"sent to {place}"
        return sent_to(_PATH, connector=connector.name, done=done)
