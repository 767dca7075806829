"""The feed of events: what was logged before, what comes, and its end with HTTP's."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest
from fastapi import FastAPI
from starlette.requests import ClientDisconnect
from starlette.testclient import TestClient

from replicator.admin.overview import Overview
from replicator.api import overview as module
from replicator.api.envelope import NotDone
from replicator.api.overview import EventShown, overview_routes, stream
from replicator.observe.recent_events import RecentEvents


def parsed(chunk: bytes) -> EventShown:
    head, data = chunk.decode().strip().split("\n")
    event = EventShown(**json.loads(data.removeprefix("data: ")))
    assert head == f"id: {event.id}"
    return event


async def test_events_come_as_they_are_logged() -> None:
    events, closed = RecentEvents(), asyncio.Event()
    for n in range(3):
        events(None, "info", {"event": f"e{n}", "topic": "orders"})
    feed = stream(events, 1, closing=closed.is_set, interval=0.01)
    assert [parsed(await anext(feed)).event for _ in range(2)] == ["e1", "e2"]
    events(None, "warning", {"event": "line\nbreak", "actor": "page"})
    late = parsed(await anext(feed))
    assert (late.event, late.level, late.actor) == ("line\nbreak", "warning", "page")
    closed.set()
    events(None, "info", {"event": "the last one"})
    assert parsed(await anext(feed)).event == "the last one"
    with pytest.raises(StopAsyncIteration):
        await anext(feed)


@pytest.mark.parametrize("last", ["", "7", "x", "-1", "9" * 400, "²"])
def test_whatever_a_browser_says_where_it_left_off(last: str) -> None:
    app = FastAPI()
    app.include_router(overview_routes(cast("Overview", None), closing=lambda: True))
    headers: dict[str, Any] = {"Last-Event-ID": last.encode()}
    found = TestClient(app).get("/events", headers=headers)
    assert found.status_code == 200
    assert found.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize(("after", "told"), [(0, ["e0", "e1"]), (1, ["e1"]), (-1, [])])
def test_a_feed_begins_where_it_is_to(after: int, told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wants to see what comes of a request does not want to see what was before."""
    events = RecentEvents()
    for n in range(2):
        events(None, "info", {"event": f"e{n}"})
    monkeypatch.setattr(module, "recent_events", events)
    app = FastAPI()
    app.include_router(overview_routes(cast("Overview", None), closing=lambda: True))
    found = TestClient(app).get("/events", params={"after": after}).text
    assert [parsed(each.encode()).event for each in found.split("\n\n") if each] == told


async def test_a_feed_counts_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many may ask at once; one whose browser has gone before its beginning is not counted for ever."""
    monkeypatch.setattr(module, "_FEEDS", 2)
    routes = overview_routes(cast("Overview", None), closing=lambda: True)
    found: Any = next(each for each in routes.routes if getattr(each, "path", "") == "/events")
    ask = found.endpoint
    feeds = [await ask() for _ in range(2)]
    with pytest.raises(NotDone, match="2 feeds are open already"):
        await ask()

    async def gone(*_: object) -> Any:
        raise OSError("the browser has gone")

    with pytest.raises(ClientDisconnect):
        await feeds[0]({"type": "http", "asgi": {"spec_version": "2.4"}}, gone, gone)
    await ask()
    with pytest.raises(NotDone):
        await ask()
