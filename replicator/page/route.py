"""The views of one route: readiness by consumer group, the metadata plan, its state and configuration."""

from __future__ import annotations

import json
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from replicator.connector.route import Route
from replicator.page.context import PageContext
from replicator.page.forms import outcome_of
from replicator.settings import RouteSettings
from replicator.state.connector_configs import Connector

__all__ = ["RouteViews", "differing"]

#: Rows of a table, at most; there may be 10,000 topics.
_ROWS: Final = 300


class RouteViews:
    """What the clusters were found to have a few seconds ago, and what the group has decided."""

    def __init__(self, page: PageContext) -> None:
        self._page = page

    async def readiness(self, request: Request) -> Response:
        """What a failover now would mean for each consumer group and topic."""
        connector = self._page.connector(request, route=True)
        overview = await self._page.overview.now()
        (about,) = [each for each in overview["connectors"] if each["name"] == connector.name] or [None]
        return self._page.answer(
            request,
            "readiness.html",
            title="Readiness",
            connector=connector,
            picks=True,
            kept=await self._page.overview.readiness_of(connector),
            about=about,
            rows=_ROWS,
        )

    async def metadata(self, request: Request) -> Response:
        """How topics, groups and offsets at the target differ from what they should be, and what was changed."""
        page, connector = self._page, self._page.connector(request, route=True)
        route = page.worker.routes.get(connector.name)
        sync = route.sync if isinstance(route, Route) else None
        return page.answer(
            request,
            "metadata.html",
            title="Metadata",
            connector=connector,
            picks=True,
            status={} if sync is None else sync.status,
            audit=[] if sync is None else list(reversed(sync.ledger.get("audit").get("entries", []))),
            kept=await page.overview.plan_of(connector),
            rows=_ROWS,
        )

    async def connector(self, request: Request) -> Response:
        """State, tasks, rate limits and configuration of one connector."""
        page, connector = self._page, self._page.connector(request)
        return page.answer(
            request,
            "connector.html",
            title=f"Connector {connector.name}",
            connector=connector,
            picks=True,
            status=page.view.status(connector),
            settings=list(differing(connector)),
            is_route=isinstance(connector.settings, RouteSettings),
            done=outcome_of(request),
            rows=_ROWS,
        )


def differing(connector: Connector) -> list[dict[str, Any]]:
    """The configuration, each setting with its default; those that differ from it come first."""
    is_route = isinstance(connector.settings, RouteSettings)
    defaults = RouteSettings().model_dump(mode="json") if is_route else {}
    found = [
        {
            "name": name,
            "value": _shown(value),
            "default": _shown(defaults[name]) if name in defaults else "",
            "differs": name in defaults and defaults[name] != value,
        }
        for name, value in connector.config.items()
    ]
    return sorted(found, key=lambda each: (not each["differs"], each["name"]))


def _shown(value: Any) -> str:
    """A setting as one reads it: text and lists as they are, all else as JSON."""
    if value in (None, "", []):
        return "\u2013"
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
