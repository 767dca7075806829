"""The configuration of a connector as text: checked, compared with what it is, and only then changed."""

from __future__ import annotations

import difflib
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from structlog.contextvars import bound_contextvars

from replicator.admin.changes import change, refuse_rivals
from replicator.api.checking import refuse_wrong
from replicator.errors import ConfigError, ReplicatorError
from replicator.page.context import PageContext
from replicator.page.forms import actor_of, fields, sent_to
from replicator.state.connector_configs import Connector

__all__ = ["ConfigurationForm", "differing_lines", "parsed"]


class _Stale(ReplicatorError):
    """The configuration is not the one that whoever changes it has seen."""


class ConfigurationForm:
    """Two steps: what was written is checked and its differences shown; the same, sent again, is applied."""

    def __init__(self, page: PageContext) -> None:
        self._page = page

    async def show(self, request: Request) -> Response:
        """The configuration as it is, to be edited."""
        connector = self._page.connector(request)
        return self._answer(request, connector, written(connector.config))

    async def send(self, request: Request) -> Response:
        """Checks what was written; applies it if that was asked for, and nobody has changed it meanwhile.

        Raises:
            Unknown: there is no such connector.
            Rebalancing, Unreachable: as `changes` says.
        """
        worker, given = self._page.worker, await fields(request)
        connector = worker.connectors.get(request.path_params["name"])
        text = given.get("config", "")
        try:
            config = parsed(text)
            settings = await refuse_wrong(worker, connector.name, config)
            refuse_rivals(worker, connector.name, settings)
        except ConfigError as error:
            return self._answer(request, connector, text, mistakes=error.message.splitlines())
        if given.get("apply") == "yes":
            try:
                with bound_contextvars(actor=actor_of(request)):
                    await change(worker, lambda: self._update(connector.name, config, given.get("known", "")))
            except _Stale as error:
                known = worker.connectors.get(connector.name)
                return self._answer(request, known, text, mistakes=[error.message])
            return sent_to("/page/connector", connector=connector.name, done="configuration changed")
        after = Connector(connector.name, settings, connector.state, "rest", 0).config
        return self._answer(request, connector, text, lines=differing_lines(connector.config, after))

    def _update(self, name: str, config: dict[str, Any], known: str) -> Connector:
        """Changes the configuration if it is still as in `known`: no other change comes between."""
        connectors = self._page.worker.connectors
        if known.split() != written(connectors.get(name).config).split():  # forms end their lines in another way
            raise _Stale("somebody has changed the configuration meanwhile: look at the differences again")
        return connectors.update(name, config)

    def _answer(
        self,
        request: Request,
        connector: Connector,
        text: str,
        *,
        mistakes: list[str] | None = None,
        lines: list[str] | None = None,
    ) -> Response:
        return self._page.answer(
            request,
            "config.html",
            code=400 if mistakes else 200,
            title=f"Configuration of {connector.name}",
            connector=connector,
            live=False,
            text=text,
            known=written(connector.config),
            mistakes=mistakes or [],
            lines=lines or [],
            checked=lines is not None,
        )


def parsed(text: str) -> dict[str, Any]:
    """A configuration that was written as JSON.

    Raises:
        ConfigError: it is not a JSON object.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"the configuration is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError("the configuration is not a JSON object: write {…}")
    return found


def written(config: dict[str, Any]) -> str:
    """A configuration as JSON, a setting a line."""
    return json.dumps(config, indent=1, sort_keys=True, ensure_ascii=False)


def differing_lines(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The lines in which two configurations differ, each with those around it, as `diff -u` writes them."""
    old, new = written(before).splitlines(), written(after).splitlines()
    return list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]  # without the names of two files
