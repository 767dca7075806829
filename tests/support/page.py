"""A worker without clusters whose page can be asked for: what it shows is put into its shared state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from httpx2 import ASGITransport, AsyncClient
from starlette.testclient import TestClient

from replicator.admin.kept_answers import KeptAnswers
from replicator.admin.overview import Overview
from replicator.api.access import Tokens
from replicator.api.guard import Guard
from replicator.group.assignment import sticky
from replicator.group.coordinator import Assignment, Coordinator
from replicator.group.membership import Generation, Heartbeat
from replicator.observe.topic_history import TopicHistory
from replicator.page.app import make_page
from replicator.routing.queue_map import Queue
from replicator.routing.state import QueueState
from replicator.settings import RouteSettings
from replicator.state.connector_configs import Connectors
from replicator.state.record import Kind
from replicator.state.store import Store
from replicator.worker.worker import Worker
from tests.support.records import TOPIC

__all__ = ["READY", "TOPIC", "PagedWorker", "paged_worker"]

_URL: Final = "http://127.0.0.1:8082"
#: What a browser says of a request that a page of ours has caused.
_OWN: Final = {"sec-fetch-site": "same-origin"}

#: What `readiness` finds where all is well.
READY: Mapping[str, Any] = {
    "ready": True,
    "reasons": [],
    "messages": 0,
    "seconds": 0.0,
    "differences": [],
    "topics": [
        {
            "topic": "orders",
            "target": "orders",
            "messages": 0,
            "counted": True,
            "seconds": 0.0,
            "seconds_known": True,
            "problem": "",
            "unknown_queues": [],
        }
    ],
    "groups": [
        {
            "group": "billing",
            "topic": "orders",
            "redelivered": 0,
            "missed": 0,
            "without_offset": 0,
            "not_copied": 0,
            "before_start": 0,
            "in_flight": 0,
            "to_retry_topic": 0,
            "acknowledged_after": 0,
            "stopped_by": [],
            "held_back_by": [],
        }
    ],
    "verified": [{"topic": "orders", "not_verified": 12, "differences": {}, "latest": [], "queues": []}],
    "pending": {
        "messages": [{"topic": "orders", "kind": "delay", "messages": 40, "parked": "off"}],
        "uncounted": 0,
        "problems": [],
    },
}


class _Settled(Coordinator):
    """No tasks change hands."""

    changing_hands = False


class PagedWorker:
    """`worker` as handlers see it; `readiness` and `plan` are what its clusters would be found to have."""

    def __init__(self, directory: Path) -> None:
        self.store = Store(directory)
        self.history = TopicHistory()
        self.readiness: dict[str, Any] = dict(READY)
        self.plan: list[dict[str, Any]] = []
        self.states: list[QueueState] = []
        self.others: dict[str, Heartbeat] = {}
        self.coordinator = _Settled("w1", strategy=sticky, timeout=5.0, lease=3.5, delay=0.5)
        self.connectors = Connectors(self.store)
        self.connectors.bring("route", RouteSettings(topics=["orders"]))
        self.route: Any = None
        self.worker = cast("Worker", SimpleNamespace(**self._parts()))
        self.overview = Overview(self.worker, self.history)
        self.overview.readiness = KeptAnswers(self._readiness, fresh=0.0)
        self.overview.plan = KeptAnswers(self._plan, fresh=0.0)
        self.assign({"route/orders": "w1"})

    def _parts(self) -> dict[str, Any]:
        async def changed() -> None: ...

        routes = type("Routes", (list,), {"get": lambda _, name: self.route, "problems": {}})()
        return {
            "id": "w1",
            "rest_address": "127.0.0.1:8082",
            "store": self.store,
            "connectors": self.connectors,
            "coordinator": self.coordinator,
            "routes": routes,
            "queues": self.states,
            "others": self.others,
            "switching": set(),
            "standby": None,
            "refresher": SimpleNamespace(source_away="", source_seen_at=0.0),
            "group": SimpleNamespace(
                name="east-west",
                waiting_for="",
                is_split=False,
                inbox=SimpleNamespace(hears_other_secret=False),
            ),
            "identity": SimpleNamespace(source="east", target="west"),
            "context": None,
            "may_send": lambda: True,
            "changed": changed,
        }

    async def _readiness(self, _: str) -> dict[str, Any]:
        return self.readiness

    async def _plan(self, _: str) -> list[dict[str, Any]]:
        return self.plan

    def hear(self, worker: str) -> None:
        """Another worker has been heard from."""
        self.others[worker] = Heartbeat(worker=worker, incarnation="first", sequence=1)

    def assign(self, owners: Mapping[str, str]) -> None:
        """Who has which task."""
        members = frozenset({"w1", *owners.values()})
        number = self.coordinator.assignment.generation.number + 1
        self.coordinator.adopt(
            Assignment(generation=Generation(number, "w1"), members=members, owners=dict(owners))
        )

    def publish(self, *topics: Mapping[str, Any], problems: Mapping[str, str] | None = None) -> None:
        """What this worker tells of its topics."""
        self.store.put(Kind.STATUS, "w1", {"topics": [dict(t) for t in topics], "problems": dict(problems or {})})

    def map_queues(self, topic: str, count: int) -> None:
        """Gives a topic its queue map, with a queue that is copied here for each."""
        queues = {Queue("east-a", n): Queue("west-a", n) for n in range(count)}
        self.store.save_queue_map("route", topic, topic, queues)
        self.states += [QueueState(topic, source, target, route="route") for source, target in queues.items()]

    def _guarded(self, tokens: Tokens | None) -> Guard:
        host = None if tokens else "127.0.0.1"
        return Guard(make_page(self.worker, self.overview), tokens=tokens or Tokens(), host=host)

    def browser(self, tokens: Tokens | None = None) -> TestClient:
        """What asks for its page, as a browser on this machine would, and follows no redirect."""
        return TestClient(
            self._guarded(tokens),
            base_url=_URL,
            headers=_OWN,
            follow_redirects=False,
            raise_server_exceptions=False,
        )

    def client(self) -> AsyncClient:
        """The same within the test's own event loop, where what a request starts goes on after it."""
        return AsyncClient(transport=ASGITransport(self._guarded(None)), base_url=_URL, headers=_OWN)


@contextmanager
def paged_worker(directory: Path) -> Iterator[PagedWorker]:
    """With a connector `route` that copies `orders`, which has two queues."""
    made = PagedWorker(directory)
    try:
        made.map_queues("orders", 2)
        made.publish(TOPIC)
        yield made
    finally:
        made.store.close()
