"""REST for people who look: the whole group in one answer, and a feed of what happens at this worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Header
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import Field
from starlette.types import Receive, Scope, Send

from replicator.admin.overview import Overview
from replicator.api.answer import Answer
from replicator.api.answers import ConnectorState, WorkerInfo
from replicator.api.envelope import NotDone, answer
from replicator.api.responses import enveloped, errors
from replicator.observe.recent_events import RecentEvents, recent_events

__all__ = ["EventShown", "OverviewShown", "overview_routes", "stream"]

#: Seconds between two checks for new events, and after which a line is sent that says nothing: a connection that
#: is silent for long is ended on its way.
_POLL_INTERVAL: Final = 0.5
_SILENCE: Final = 15.0
#: Feeds that are open at a time; a browser has one per page.
_FEEDS: Final = 32

Verdict = Annotated[
    Literal["yes", "no", "unknown"],
    Field(description="whether a failover now would be complete; `unknown`: that could not be found out"),
]


class ConnectorOverview(Answer):
    """One connector, its topics added up."""

    name: str
    type: Literal["ROUTE", "SOURCE", "SINK"]
    state: ConnectorState
    safe: Annotated[Verdict | None, Field(description="null: it is not a route")]
    reasons: Annotated[list[str], Field(description="what stands against a failover, or could not be found out")]
    notes: Annotated[list[str], Field(description="what is to be known, and does not stand against it")]
    checked_at: Annotated[
        float | None,
        Field(description="when the clusters were asked for `reasons`, in seconds since the epoch; null: never"),
    ]
    checking: Annotated[
        bool, Field(description="whether they are being asked again now; a broker that hangs takes it seconds")
    ]
    topics: int
    queues: int
    delay_queues: Annotated[
        int, Field(description="of `queues`, those of system topics in which delayed and timer messages wait")
    ]
    failed: Annotated[int, Field(description="queues that have failed")]
    waiting: Annotated[int, Field(description="queues that wait for a cluster or a right")]
    stalled: int
    copied: int
    lag_messages: int
    gap_messages: int
    target_lost: int
    audit_differences: int
    lag_seconds: float
    verified_age_seconds: float
    rate: Annotated[float | None, Field(description="messages per second, lately; null: not known yet")]
    eta_seconds: Annotated[
        float | None,
        Field(
            description="until nothing is left, at this rate; null: the lag does not shrink, or it is not known yet"
        ),
    ]


class OverviewShown(Answer):
    """The whole group."""

    at: Annotated[float, Field(description="seconds since the epoch")]
    worker_id: Annotated[str, Field(description="the worker that answers")]
    group: str
    source: str
    target: str
    leader: str
    rebalancing: bool
    workers: list[WorkerInfo]
    missing_workers: Annotated[list[str], Field(description="that have tasks and are not heard from")]
    safe: Annotated[Verdict, Field(description="the worst of all routes")]
    connectors: list[ConnectorOverview]


class EventShown(Answer):
    """What a worker has logged: the `data` of each event of the feed."""

    id: int
    at: Annotated[str, Field(description="ISO 8601")]
    level: str
    event: str
    actor: Annotated[str, Field(description="who asked for it; empty: nobody did")]
    details: dict[str, str]


_STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Server-sent events; `id` goes on where `Last-Event-ID` left off.",
        "content": {"text/event-stream": {"schema": EventShown.model_json_schema()}},
    }
}


class _Feed(StreamingResponse):
    """Server-sent events; `ended` is called at their end, also where the browser has gone before they begin."""

    def __init__(self, events: AsyncIterator[bytes], ended: Callable[[], None]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


def overview_routes(overview: Overview, *, closing: Callable[[], bool]) -> APIRouter:
    """/overview and /events.

    Args:
        closing: whether feeds are to end.
    """
    routes = APIRouter(tags=["overview"])
    open_feeds = 0

    @routes.get("/overview", **enveloped(OverviewShown))
    async def get_overview() -> JSONResponse:
        """Whether a failover now would be complete, and why not; the workers, and the figures of each connector.

        The clusters are asked at most every five seconds, whoever looks: `checked_at` says when that was.
        """
        return answer(await overview.now())

    @routes.get("/events", response_class=StreamingResponse, responses=errors(503) | _STREAM)
    async def stream_events(after: int = 0, last_event_id: Annotated[str, Header()] = "") -> StreamingResponse:
        """What this worker logs, and was asked for before it began: events of higher ids than `after`, live.

        Five hundred are kept. With `after` below 0 it is only those that come. The header `Last-Event-ID`, by which
        browsers go on, counts before `after`.
        """
        nonlocal open_feeds
        if open_feeds >= _FEEDS:
            raise NotDone(f"{_FEEDS} feeds are open already", hint="close one, or ask another worker")

        def ended() -> None:
            nonlocal open_feeds
            open_feeds -= 1

        known = recent_events.last if after < 0 else after
        feed = _Feed(stream(recent_events, _number(last_event_id, known), closing=closing), ended)
        open_feeds += 1  # before it begins: others may ask until then
        return feed

    return routes


def _number(last_event_id: str, otherwise: int) -> int:
    return int(last_event_id[:18]) if last_event_id.isascii() and last_event_id.isdecimal() else otherwise


async def stream(
    events: RecentEvents, after: int, *, closing: Callable[[], bool], interval: float = _POLL_INTERVAL
) -> AsyncIterator[bytes]:
    """Events with a higher number than `after`, and those that come, until `closing`."""
    loop = asyncio.get_running_loop()
    silent_since = loop.time()
    ended = False
    while not ended:
        ended = closing()  # what was logged until then is still told
        for event in events.after(after):
            after, silent_since = event.id, loop.time()
            shown = EventShown(**event._asdict())
            yield f"id: {event.id}\ndata: {shown.model_dump_json()}\n\n".encode()
        if loop.time() - silent_since >= _SILENCE:
            silent_since = loop.time()
            yield b":\n\n"
        await asyncio.sleep(0.0 if ended else interval)
