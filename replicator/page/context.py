"""What all views of the page share: the worker, what is kept of its clusters, and the frame around each view."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse

from replicator.admin.group_view import GroupView
from replicator.admin.overview import Overview
from replicator.api.access import Role
from replicator.api.guard import ROLE
from replicator.observe.recent_events import recent_events
from replicator.page.rendering import HEADERS, link, render
from replicator.state.connector_configs import Connector, Unknown
from replicator.worker.worker import Worker

__all__ = ["PageContext", "Tab", "role_of"]


class Tab(NamedTuple):
    """A view in the navigation; `of_connector`: it shows one connector."""

    path: str
    title: str
    of_connector: bool = False


_TABS: Final = (
    Tab("/", "Overview"),
    Tab("/page/topics", "Topics"),
    Tab("/page/workers", "Workers"),
    Tab("/page/readiness", "Readiness", of_connector=True),
    Tab("/page/metadata", "Metadata", of_connector=True),
    Tab("/page/errors", "Errors"),
    Tab("/page/events", "Events"),
    Tab("/page/find", "Find a message", of_connector=True),
    Tab("/page/connector", "Connector", of_connector=True),
    Tab("/page/failover", "Failover", of_connector=True),
)


def role_of(request: Request) -> Role:
    """What who asks may do; where nothing was asked for, everything."""
    role: Role | None = request.scope.get(ROLE)
    return Role.READ if role is None else role


@dataclass(frozen=True)
class PageContext:
    """A worker as the page shows it."""

    worker: Worker
    overview: Overview

    @cached_property
    def view(self) -> GroupView:
        return GroupView(self.worker)

    def connector(self, request: Request, *, route: bool = False) -> Connector:
        """The connector that the query names; without one the first, routes before others.

        Args:
            route: whether only a route will do.

        Raises:
            Unknown: there is none.
        """
        name = request.query_params.get("connector")
        if name:
            found = self.worker.connectors.get(name)
        else:
            all_ = sorted(self.worker.connectors.all().values(), key=lambda each: each.type != "ROUTE")
            if not all_:
                raise Unknown("the group has no connector", hint="create one with POST /connectors/NAME")
            found = all_[0]
        if route and found.type != "ROUTE":
            raise Unknown(f"connector {found.name!r} copies no topics between clusters", hint="choose another one")
        return found

    def answer(
        self, request: Request, template: str, *, code: int = 200, live: bool = True, **values: Any
    ) -> HTMLResponse:
        """A view within its frame.

        Args:
            live: whether it is renewed while somebody looks; not where somebody writes.
        """
        role, chosen = role_of(request), values.get("connector")
        page = render(
            template,
            **{"connector": None, "title": "", "picks": False, **values},
            live=live,
            path=request.url.path,
            tabs=[(tab, _target(tab, chosen)) for tab in _TABS],
            connectors=list(self.worker.connectors.all()),
            group=self.worker.group.name,
            source=self.worker.identity.source,
            target=self.worker.identity.target,
            worker_id=self.worker.id,
            may_operate=role >= Role.OPERATE,
            may_admin=role >= Role.ADMIN,
            last_event=recent_events.last,
            now=time.time(),
        )
        return HTMLResponse(page, status_code=code, headers=HEADERS)


def _target(tab: Tab, chosen: Connector | None) -> str:
    return link(tab.path, connector=chosen.name if chosen is not None and tab.of_connector else "")
