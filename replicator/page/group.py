"""The views of the whole group: the overview, workers, errors and events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from replicator.admin.overview import missing_workers
from replicator.observe.recent_events import recent_events
from replicator.page.context import PageContext
from replicator.page.topics import TopicViews, worst_first
from replicator.routing.state import Phase
from replicator.settings import RouteSettings

__all__ = ["GroupViews"]

#: Topics and events of the overview, tasks per worker, and events of their own view.
_WORST: Final = 6
_LATEST: Final = 6
_TASKS: Final = 100
_EVENTS: Final = 200
#: What a topic counts that should not have happened, in words.
_COUNTED: Final = {
    "target_lost": "lost at the target",
    "audit_differences": "not as sent",
    "gap_messages": "missing at the source",
    "skipped": "skipped",
    "duplicates": "duplicates",
    "foreign": "foreign",
    "late": "late",
}


class GroupViews:
    """What heartbeats and the shared state say."""

    def __init__(self, page: PageContext, topics: TopicViews) -> None:
        self._page = page
        self._topics = topics

    def _all_topics(self) -> list[dict[str, Any]]:
        page = self._page
        return [topic for each in page.worker.connectors.all().values() for topic in page.view.topics(each)]

    def _events(self) -> list[dict[str, Any]]:
        """Those of this worker and those that the others have told, the newest first."""
        own = [event._asdict() | {"worker": self._page.worker.id} for event in reversed(recent_events.after(0))]
        return sorted([*own, *self._page.view.noticed()], key=lambda event: event["at"], reverse=True)

    async def overview(self, request: Request) -> Response:
        """Are we safe to fail over?"""
        page = self._page
        worst = sorted(self._all_topics(), key=worst_first)[:_WORST]
        severe = [event for event in self._events() if event["level"] in ("warning", "error")]
        return page.answer(
            request,
            "overview.html",
            title="Overview",
            overview=await page.overview.now(),
            topics=self._topics.rows(worst),
            span=self._topics.span(),
            events=severe[:_LATEST],
        )

    async def workers(self, request: Request) -> Response:
        """Who is there, and which tasks each has."""
        page = self._page
        allocated = page.view.allocated()
        return page.answer(
            request,
            "workers.html",
            title="Workers",
            cluster=page.view.cluster(),
            missing=missing_workers(page.worker),
            placement=[(name, tasks[:_TASKS], len(tasks)) for name, tasks in sorted(allocated.items())],
        )

    async def errors(self, request: Request) -> Response:
        """What has failed, what waits, and what was counted that should not have happened."""
        page, topics = self._page, sorted(self._all_topics(), key=worst_first)
        connectors = page.worker.connectors.all().values()
        dead = [
            (each.name, each.settings.dead_letter_topic, each.settings.on_error == "dead-letter")
            for each in connectors
            if isinstance(each.settings, RouteSettings)
        ]
        return page.answer(
            request,
            "errors.html",
            title="Errors",
            wrong=[topic for topic in topics if topic["failed"] or topic["waiting"] or topic["stalled"]],
            problems=page.view.problems(),
            tasks=[
                (each.name, task)
                for each in connectors
                for task in page.view.tasks(each)
                if task["state"] == Phase.FAILED
            ],
            counted=[topic for topic in topics if any(topic[name] for name in _COUNTED)][:_TASKS],
            words=_COUNTED,
            queues=list(self._queues_with_errors()),
            dead_letters=dead,
            events=[event for event in self._events() if event["level"] == "error"][:50],
        )

    def _queues_with_errors(self) -> Iterable[dict[str, Any]]:
        """The queues that are copied here and have failed requests or skipped messages, with the reasons."""
        for state in self._page.worker.queues:
            counters = state.counters
            if counters.errors or counters.skipped:
                yield {
                    "connector": state.route,
                    "topic": state.topic,
                    "queue": str(state.source),
                    "errors": {": ".join(map(str, kind)): count for kind, count in counters.errors.items()},
                    "skipped": dict(counters.skipped),
                }

    async def events(self, request: Request) -> Response:
        """What this worker has logged and the others have told, the newest first, with who asked for it."""
        page, level = self._page, request.query_params.get("level", "")
        level = level if level in ("info", "warning", "error") else ""
        by_people = request.query_params.get("by") == "people"
        found = [
            event for event in self._events() if level in (event["level"], "") and (event["actor"] or not by_people)
        ]
        return page.answer(
            request, "events.html", title="Events", events=found[:_EVENTS], level=level, by_people=by_people
        )
