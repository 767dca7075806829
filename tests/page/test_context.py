"""The frame around each view: where one is, which connector, and what may be done."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from replicator.api.access import Role
from replicator.api.guard import ROLE
from replicator.page.context import PageContext, role_of
from replicator.settings import RouteSettings
from replicator.state.connector_configs import Unknown
from tests.support.page import PagedWorker


def asked(query: str = "", role: Role | None = None) -> Request:
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": query.encode(), "headers": []}
    return Request(scope | {ROLE: role})


def test_who_was_not_asked_for_a_token_reads_only_unless_the_guard_says_otherwise() -> None:
    assert role_of(asked()) is Role.READ
    assert role_of(asked(role=Role.OPERATE)) is Role.OPERATE


def test_the_connector_is_the_one_that_is_named_or_the_first(paged: PagedWorker) -> None:
    page = PageContext(paged.worker, paged.overview)
    paged.connectors.bring("another", RouteSettings(topics=["bills"]))
    assert page.connector(asked("connector=route")).name == "route"
    assert page.connector(asked()).name == "another"
    with pytest.raises(Unknown, match="there is no connector 'none'"):
        page.connector(asked("connector=none"))


def test_links_keep_the_connector_and_the_last_event_is_told(paged: PagedWorker) -> None:
    page = PageContext(paged.worker, paged.overview)
    connector = paged.connectors.get("route")
    body = page.answer(asked(), "refused.html", title="x", lines=[], hint="", back="/", connector=connector).body
    assert b'href="/page/readiness?connector=route"' in body
    assert b'data-after="' in body
    assert b"<noscript><meta" in body
