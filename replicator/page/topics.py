"""The views of topics: all of them, the worst first, and one with its queues."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from replicator.admin.overview import time_left
from replicator.connector.status import queue_status
from replicator.page.context import PageContext
from replicator.page.forms import whole
from replicator.page.line import chart
from replicator.routing.queue_map import Queue
from replicator.routing.task_id import TaskId
from replicator.state.connector_configs import Connector, Unknown

__all__ = ["TopicViews"]

#: Topics on one page.
_SHOWN: Final = 50
#: Seconds that a small line and a large one show at most, and at least: they grow with what is known.
_SPAN: Final = 3600.0
_LONG_SPAN: Final = 3 * 3600.0
_LEAST: Final = 600.0


class TopicViews:
    """What workers have published of topics, and the lines of the last hours."""

    def __init__(self, page: PageContext) -> None:
        self._page = page

    async def all(self, request: Request) -> Response:
        """All topics of all connectors, or of one."""
        page, query = self._page, request.query_params
        wanted, text = query.get("connector", ""), query.get("q", "").strip()
        topics = [
            topic
            for connector in page.worker.connectors.all().values()
            if wanted in ("", connector.name)
            for topic in page.view.topics(connector)
            if text.lower() in topic["topic"].lower()
        ]
        topics.sort(key=worst_first)
        pages = max(1, -(-len(topics) // _SHOWN))
        at = min(max(1, whole(query.get("page", "")) or 1), pages)
        return page.answer(
            request,
            "topics.html",
            title="Topics",
            topics=self.rows(topics[(at - 1) * _SHOWN : at * _SHOWN]),
            count=len(topics),
            pages=pages,
            at=at,
            text=text,
            wanted=wanted,
            problems=page.view.problems(),
            span=self.span(),
        )

    def span(self, most: float = _SPAN) -> float:
        """Seconds that lines show: as long as there are points, rounded to minutes."""
        known = time.time() - self._page.overview.history.begun_at
        return min(most, max(_LEAST, 60 * math.ceil(known / 60)) if math.isfinite(known) else _LEAST)

    def rows(self, topics: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Topics with rate, time left and a small line each."""
        return [self._row(topic, width=120, height=24, span=self.span()) for topic in topics]

    def _row(self, topic: dict[str, Any], *, width: int, height: int, span: float) -> dict[str, Any]:
        key, history = (topic["connector"], topic["topic"]), self._page.overview.history
        connector = self._page.worker.connectors.all().get(topic["connector"])
        trend = None if connector is None else self._page.overview.trend(connector, topic["topic"])
        line = chart(history.line(key), width=width, height=height, span=span, now=time.time())
        growth = 0.0 if trend is None else trend.growth
        rate = None if trend is None else trend.rate
        return topic | {"rate": rate, "eta": time_left(topic["lag_messages"], growth), "line": line}

    async def one(self, request: Request) -> Response:
        """One topic with its queue map."""
        page, name = self._page, request.query_params.get("topic", "")
        connector = page.connector(request)
        found = next((topic for topic in page.view.topics(connector) if topic["topic"] == name), None)
        queues = self._queues(connector, name)
        if found is None and not queues:
            raise Unknown(
                f"connector {connector.name!r} copies no topic {name!r}", hint="the view Topics lists them"
            )
        row = None if found is None else self._row(found, width=720, height=120, span=self.span(_LONG_SPAN))
        return page.answer(
            request,
            "topic.html",
            title=name,
            connector=connector,
            topic=row,
            name=name,
            target_topic=page.worker.store.target_topic(connector.name, name),
            queues=queues,
            span=self.span(_LONG_SPAN),
        )

    def _queues(self, connector: Connector, topic: str) -> list[dict[str, Any]]:
        """The queue map, with lag and reasons as they are here, or as their worker has published them."""
        worker = self._page.worker
        here = {
            (state.source.broker, state.source.queue_id): queue_status(state)
            for state in worker.queues
            if (state.route, state.topic) == (connector.name, topic)
        }
        elsewhere = self._page.view.worst_queues(connector.name, topic)
        owners = {task["id"]: task for task in self._page.view.tasks(connector)}
        found = []
        for queue in self._page.view.queues(connector, topic):
            source = queue["source"]
            name = TaskId(connector.name, topic, Queue(source["broker"], source["queue"]))
            task = owners.get(name.task) or owners.get(topic)
            place = source["broker"], source["queue"]
            found.append(queue | {"here": here.get(place) or elsewhere.get(place), "task": task})
        return found


def worst_first(topic: dict[str, Any]) -> tuple[int, int, str]:
    """A key to sort topics by."""
    return -topic["severity"] - 100 * bool(topic["stalled"]), -topic["lag_messages"], topic["topic"]
