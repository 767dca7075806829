"""The failover wizard: how, a dry run, the connector's name typed in, the steps as they come, the report."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from replicator.admin.failover import FailoverOptions, failover
from replicator.connector.route import Route
from replicator.errors import ConfigError
from replicator.page.context import PageContext
from replicator.page.failover_runs import FailoverRuns
from replicator.page.forms import actor_of, fields, sent_to, whole
from replicator.state.connector_configs import Unknown

__all__ = ["FailoverWizard", "options_of"]


class FailoverWizard:
    """Starts failovers at this worker, as `POST /connectors/{name}/failover` does, and shows them."""

    def __init__(self, page: PageContext, runs: FailoverRuns) -> None:
        self._page = page
        self._runs = runs

    async def begin(self, request: Request) -> Response:
        """How to fail over, and the runs so far."""
        page, connector = self._page, self._page.connector(request, route=True)
        overview = await page.overview.now()
        return page.answer(
            request,
            "failover.html",
            title="Failover",
            connector=connector,
            picks=True,
            live=False,
            about=next((each for each in overview["connectors"] if each["name"] == connector.name), None),
            copied=[topic["topic"] for topic in page.view.topics(connector)],
            runs=self._runs.of(connector.name),
        )

    async def start(self, request: Request) -> Response:
        """Starts a dry run; or, where the connector's name was typed in, the failover.

        Raises:
            ConfigError: the name is missing or another one, or an option cannot be used.
            NotNow: one is going on already.
        """
        name, given = request.path_params["name"], await fields(request)
        worker = self._page.worker
        connector, route = worker.connectors.get(name), worker.routes.get(name)
        if not isinstance(route, Route):
            raise Unknown(f"connector {name!r} cannot be failed over", hint="only routing connectors can")
        how = options_of(given)
        if not how.dry_run and given.get("confirm") != name:
            raise ConfigError(
                f"the failover was not started: {given.get('confirm', '')!r} is not the connector's name",
                hint=f"type {name} to confirm it",
            )
        run = self._runs.start(name, how, actor_of(request), lambda: failover(worker, connector, route, how))
        return sent_to("/page/failover/run", connector=name, id=run.id)

    async def run(self, request: Request) -> Response:
        """The steps of one run, and its report."""
        number = request.query_params.get("id", "")
        found = self._runs.get(whole(number) or 0)  # they are counted from 1
        if found is None:
            raise Unknown(
                f"this worker remembers no failover {number!r}",
                hint="it may have run at another worker, or before this one started",
            )
        return self._page.answer(
            request,
            "failover_run.html",
            title="Failover" if not found.how.dry_run else "Dry run of a failover",
            connector=self._page.worker.connectors.get(found.connector),
            run=found,
            live=found.going_on,
        )


def options_of(given: dict[str, Any]) -> FailoverOptions:
    """What the form says.

    Raises:
        ConfigError: a field has something that cannot be.
    """
    text = given.get("drain_timeout") or "60"
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise ConfigError(f"drain_timeout = {text!r} is not between 0 and 86400", hint="give a number of seconds")
    topics = given.get("topics", "")
    named = frozenset(topics.replace(",", " ").split())
    if topics.strip() and not named:
        raise ConfigError(
            f"topics = {topics!r} names no topic", hint="name one, or leave it empty to switch them all"
        )
    return FailoverOptions(
        drain_timeout=seconds,
        source_dead=given.get("source_dead") == "yes",
        open_all=given.get("open_all") == "yes",
        dry_run=given.get("dry_run") == "yes",
        topics=named,
    )
