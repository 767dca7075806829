"""What people change on the page: a form is carried out, then the browser is sent to a view."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from structlog.contextvars import bound_contextvars

from replicator.admin.changes import change, restart_task, set_rates, set_state
from replicator.errors import ConfigError
from replicator.page.context import PageContext, role_of
from replicator.page.rendering import HEADERS, link
from replicator.state.connector_configs import State

__all__ = ["ConnectorForms", "actor_of", "fields", "outcome_of", "sent_to", "whole", "whole_number"]

#: By what a form asks for, the state, and what the page says when that is done.
_STATES: Final = {
    "pause": (State.PAUSED, "paused"),
    "resume": (State.RUNNING, "resumed"),
    "stop": (State.STOPPED, "stopped"),
}


async def fields(request: Request) -> dict[str, str]:
    """What was filled in, without spaces around it; of fields of one name the last."""
    given = parse_qs((await request.body()).decode("utf-8", "replace"), keep_blank_values=True)
    return {name: values[-1].strip() for name, values in given.items()}


def sent_to(path: str, **query: object) -> Response:
    """Where the browser goes on, so that loading the page again does not send the form again."""
    return RedirectResponse(link(path, **query), status_code=303, headers=HEADERS)


def outcome_of(request: Request) -> str:
    """What a form has done, as the browser is sent on with; a link of another site could say anything."""
    ours = request.headers.get("sec-fetch-site", "same-origin") == "same-origin"
    return request.query_params.get("done", "") if ours else ""


def actor_of(request: Request) -> str:
    """Who asks, as far as it can be known: the address, and the role of the token."""
    peer = "unknown" if request.client is None else request.client.host
    return f"page {peer} ({role_of(request).name.lower()})"


def whole(text: str) -> int | None:
    """The whole number that was written, of 18 digits at most; None: it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


def whole_number(given: dict[str, str], name: str) -> int:
    """A field that has a whole number, with or without separators; 0 if it is empty.

    Raises:
        ConfigError: it has something else.
    """
    number = whole(given.get(name, "").replace(",", "") or "0")
    if number is None:
        raise ConfigError(f"{name} = {given[name]!r} is not a whole number", hint="0 is no limit")
    return number


class ConnectorForms:
    """State, restarts and rates of one connector."""

    def __init__(self, page: PageContext) -> None:
        self._page = page

    async def act(self, request: Request) -> Response:
        """`pause`, `resume`, `stop`, `restart`, `restart-task` or `rates`.

        Raises:
            Unknown, ConfigError, NotNow, Rebalancing, Unreachable: as `changes` says.
        """
        name, action = request.path_params["name"], request.path_params["action"]
        given = await fields(request)
        with bound_contextvars(actor=actor_of(request)):
            done = await self._doers()[action](name, given)
        return sent_to("/page/connector", connector=name, done=done)

    def _doers(self) -> dict[str, Callable[[str, dict[str, str]], Awaitable[str]]]:
        worker = self._page.worker

        def setting(state: State, done: str) -> Callable[[str, Any], Awaitable[str]]:
            async def set_it(name: str, _: object) -> str:
                await set_state(worker, name, state)
                return done

            return set_it

        async def restart(name: str, _: object) -> str:
            await change(worker, lambda: worker.connectors.restart(name))
            return "restarted"

        async def restart_one(name: str, given: dict[str, str]) -> str:
            await restart_task(worker, name, given.get("task", ""))
            return f"task {given['task']} restarted"

        async def rates(name: str, given: dict[str, str]) -> str:
            limits = {each: whole_number(given, each) for each in ("rate_messages", "rate_bytes")}
            await set_rates(worker, name, **limits)
            return "rate limits changed"

        states = {action: setting(*what) for action, what in _STATES.items()}
        return {**states, "restart": restart, "restart-task": restart_one, "rates": rates}


#: What `ConnectorForms.act` can do, as a pattern of Starlette's paths.
ACTIONS: Final = (*_STATES, "restart", "restart-task", "rates")
