"""What reads each kind of record, as workers, commands and the page do: for records that others have written.

All of it is of a route `route` that copies `orders` from broker `a` to `b`, beside whatever else records say.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec
from rich.console import Console, RenderableType
from starlette.requests import Request

from acl_sync.ownership import Ownership
from replicator.admin import failover_turn, metrics_snapshot
from replicator.admin.verified_queues import differing, verified_topics
from replicator.client.groups import GroupTable
from replicator.client.topics import TopicConfig
from replicator.connector.route import Route
from replicator.connector.status import QueueSums, queue_status, topic_status
from replicator.connector.sync.ledger import SyncLedger
from replicator.connector.sync.task import SyncTask
from replicator.errors import ReplicatorError
from replicator.group.known_group import clusters_record, match
from replicator.group.member import Group
from replicator.group.unowned_tasks import UnownedTasks
from replicator.metadata.groups import GroupPolicy, GroupSelector, plan_groups
from replicator.metadata.ledger import remember
from replicator.metadata.topics import TopicPolicy, plan_topics
from replicator.operate.show import lag_table, table
from replicator.operate.workers.brokers import _drawn, _time
from replicator.operate.workers.sync import _actions, _last_known
from replicator.page import route as route_page
from replicator.page.context import PageContext
from replicator.page.group import GroupViews
from replicator.page.topics import TopicViews
from replicator.routing.options import Identity
from replicator.routing.plan import MAX_QUEUES, TopicPlan
from replicator.routing.plan import plan_topics as plan_route
from replicator.routing.queue_map import Queue
from replicator.routing.state import QueueState
from replicator.settings import RouteSettings, Settings
from replicator.state.known_brokers import Side, being_given_up, forgotten, record_of
from replicator.state.queue_records import offset_record, position_record
from replicator.state.record import Kind
from replicator.state.record_types import Skipped, fit_all
from replicator.worker.releases import Releases
from tests.support.page import PagedWorker

__all__ = ["READERS", "Readers", "merge", "reader_of"]

_TOPIC: Final = TopicConfig(name="orders", read_queues=4, write_queues=4)
_SOURCE: Final = {"a": {"orders": _TOPIC}}
_TARGET: Final = {"b": {"orders": _TOPIC}}
_GROUPS: Final = {"x": GroupTable({"g": {"groupName": "g", "retryMaxTimes": 3}}, {}, (), None)}
_SETTINGS: Final = Settings.model_validate({"source": {"namesrv": ["e:1"]}, "target": {"namesrv": ["w:1"]}})
_VIEWS: Final = (
    "/page/connector?connector=route",
    "/page/topic?connector=route&topic=orders",
    "/page/events?by=people",
)


def merge(paged: PagedWorker, rows: bytes | Sequence[Sequence[Any]]) -> list[Skipped]:
    """Takes records as a worker takes them from a system topic; those that do not fit.

    Args:
        rows: a JSON array, or what it is made of: kind, key, version and value each.
    """
    raw = rows if isinstance(rows, bytes) else msgspec.json.encode(rows)
    found, skipped = fit_all(raw, now=time.time())
    for record in found:
        paged.store.merge(record)
    return skipped


class Readers:
    """All that reads records of one worker; each function reads what one kind of record, or several, say."""

    def __init__(self, directory: Path) -> None:
        self.paged = PagedWorker(directory)
        self.store = self.paged.store
        self.route = object.__new__(Route)
        self.context: Any = SimpleNamespace(
            store=self.store,
            source=SimpleNamespace(cluster=None),
            target=SimpleNamespace(cluster=None),
            identity=Identity("s", "t"),
            may_send=lambda: True,
            accounts=None,
        )
        plan = TopicPlan(topic="orders", target_topic="orders", queue_map={Queue("a", 0): Queue("b", 1)})
        topics: Any = SimpleNamespace(
            name="route", plans=[plan], of_users=[plan], parked={}, is_copied=lambda topic: topic == "orders"
        )
        self.route.name, self.route.topics, self.route.settings = "route", topics, RouteSettings()
        self.route.sync = SyncTask(RouteSettings(sync=["topics"]), cast("Any", self.context), topics)
        self.paged.route = self.route
        page = PageContext(self.paged.worker, self.paged.overview)
        topic_views = TopicViews(page)
        group_views, route_views = GroupViews(page, topic_views), route_page.RouteViews(page)
        self.group_views = group_views
        self.views: dict[str, Callable[[Request], Any]] = {
            "/": group_views.overview,
            "/page/workers": group_views.workers,
            "/page/errors": group_views.errors,
            "/page/events": group_views.events,
            "/page/topics": topic_views.all,
            "/page/topic": topic_views.one,
            "/page/metadata": route_views.metadata,
            "/page/readiness": route_views.readiness,
            "/page/connector": route_views.connector,
        }
        self.ledger = SyncLedger("route", self.store)
        self._runner = asyncio.Runner()

    def close(self) -> None:
        self._runner.close()
        self.store.close()

    def show(self, path: str) -> None:
        """A view of the page."""
        path, _, query = path.partition("?")
        scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode(), "headers": []}
        with contextlib.suppress(ReplicatorError):  # there is no such topic, or connector
            assert self._runner.run(self.views[path](Request(scope))).status_code == 200

    def print(self, drawn: RenderableType) -> None:
        """What a command shows in a terminal."""
        Console(file=io.StringIO(), width=100).print(drawn)

    def connectors(self) -> None:
        """What each is to do; the page shows its configuration."""
        for connector in self.paged.connectors.all().values():
            assert connector.config
            assert connector.type
            list(route_page.differing(connector))
            self.paged.overview._view.status(connector)
        self.show("/page/connector")
        self.show("/page/topics")

    def queue_maps(self) -> None:
        """What the target needs, and where each queue goes."""
        store = self.store
        maps = store.queue_maps("route")
        known = {topic: store.whole_queue_map("route", topic) for topic in maps}
        for topic in maps:
            store.created_at("route", topic)
            store.left("route", topic)
            store.target_topic("route", topic)
            assert not store.begins_late("route", topic, Queue("nobody", 0))
        source = {"a": dict.fromkeys(["orders", *maps], _TOPIC)}
        names = {topic: topic for topic in source["a"]}
        plans = plan_route(
            source, _TARGET, known, names, left={topic: store.left("route", topic) for topic in maps}
        )
        for plan in plans:
            assert all(config.queues <= MAX_QUEUES for _, config in plan.writes)
        self._plan(plans)
        self.show("/page/topics")

    def _plan(self, plans: Sequence[TopicPlan]) -> None:
        """What the metadata task makes of topics and groups, by its ledger."""
        for kind in ("topics", "groups"):
            ledger = self.ledger.of(kind)
            if kind == "topics":
                planned = plan_topics(
                    plans,
                    _SOURCE,
                    _TARGET,
                    ledger,
                    missing=lambda _: 3,
                    made=lambda _: (),
                    selects=lambda _: True,
                    policy=TopicPolicy(),
                )
            else:
                planned = plan_groups(
                    {"a": _GROUPS["x"]},
                    {"b": _GROUPS["x"]},
                    ledger,
                    selector=GroupSelector.of([".*"], []),
                    topics={},
                    placed={},
                    policy=GroupPolicy(),
                )
            remember(planned, {}, ledger, written=(), answered=("b",))
            self.print(_actions([action.shown() for action in planned.actions], "blocked", empty=""))

    def assignment(self) -> None:
        """Who has which task."""
        group = object.__new__(Group)
        group.store, group.coordinator = self.store, self.paged.coordinator
        group.recall()
        UnownedTasks().update(self.paged.coordinator, {"route/orders"}, 0.0)
        self.show("/page/workers")

    def progress(self) -> None:
        """How far each queue is, and what is known of its copies."""
        state = QueueState("orders", Queue("a", 0), Queue("b", 1), route="route")
        self.store.restore(state)
        queue_status(state)
        topic_status([state])
        QueueSums.of([state]).worst()
        copied = self.route.sync.copied.snapshot().queue("orders", state.source)
        if copied is not None:
            until = copied.copied_until / 1000
            known = {"broker": "a", "queue": 0, "position": copied.position, "copied_until": until}
            _last_known([known])
            moved = {"topic": "orders", "source": known, "target": known, "moved_to": None}
            done = {"dry_run": True, "side": "source", "broker": "a", "queues_to": "", "topics_gone": []}
            self.print(_drawn(done | {"queues": [moved | known]}))
        list(differing(self._runner.run(verified_topics(self.route, self.context))))
        self.show("/page/topic?connector=route&topic=orders")
        if state.progress.position is not None:
            state.counters.copied += 1
            state.counters.gaps += 1
            state.counters.skip("x", 1)
            rows = [["position", state.key, [1, "w"], position_record(state)]]
            rows += [["offset", state.key, [1, "w"], offset_record(state)]]
            assert fit_all(msgspec.json.encode(rows), now=time.time())[1] == [], "its next owner can read it"

    def statuses(self) -> None:
        """What workers say of topics, queues and events."""
        view, connectors = self.paged.overview._view, self.paged.connectors.all()
        view.progress()
        view.noticed()
        for each in connectors.values():
            view.status(each)
        self.print(lag_table({name: {"status": view.status(each)} for name, each in connectors.items()}))
        for path in self.views:
            self.show(path)

    def metadata(self) -> None:
        """What the metadata task was asked, has done and has written."""
        ledger, name = self.ledger, "route"
        if (open_ := ledger.get("request")) and ledger.answered(open_["id"]) is None:
            ledger.take()
        ledger.is_taken("x")
        for done in (ledger.answered(each["id"]) for each in ledger._answers()):
            self.print(_actions(done or [], "error", empty=""))
        self._plan([TopicPlan(topic="orders", target_topic="orders", queue_map={Queue("a", 0): Queue("b", 1)})])
        self.show("/page/metadata")
        self.route.sync.running = True
        metrics_snapshot._sync(cast("Any", SimpleNamespace(routes=[self.route])))
        releases = Releases(
            "w9", cast("Any", [self.route]), self.paged.connectors, self.context, work=cast("Any", None)
        )
        self._runner.run(releases.resume())
        assert not releases._is_mine(self.route)
        worker: Any = SimpleNamespace(others=self.paged.others, group=SimpleNamespace(incarnation="i"))
        failover_turn._other_is_at_it(worker, ledger.get("failover"), source_dead=False)
        failover_turn.note(ledger, by="w", incarnation="i")
        ledger.audit([])
        self.show(f"/page/metadata?connector={name}")

    def accounts(self) -> None:
        """Which accounts at the target are ours."""
        Ownership(self.ledger.get("acl")).as_json()

    def clusters(self) -> None:
        """Which clusters the group is of."""
        known = self.store.state.get(Kind.CLUSTERS, "")
        made = clusters_record(known, _SETTINGS, "g", Identity("s", "t"))
        match([made] if known is None else [made, known], _SETTINGS, "t")

    def brokers(self) -> None:
        """Which brokers are gone for good."""
        state, rows = self.store.state, []
        being_given_up(state)
        sides: tuple[Side, ...] = ("source", "target")
        for side in sides:
            for broker in forgotten(state, side):
                record = record_of(state, side, broker)
                assert record is not None
                rows.append([broker, _time(record["forgotten_at"])])
        self.print(table(("broker", "forgotten"), rows, empty=""))


#: What reads a kind of record; of those of the metadata task, by the names of their keys.
READERS: Final[Mapping[str, Callable[[Readers], None]]] = {
    "connector": Readers.connectors,
    "task": Readers.queue_maps,
    "assignment": Readers.assignment,
    "position": Readers.progress,
    "offset": Readers.progress,
    "status": Readers.statuses,
    "sync": Readers.metadata,
    "acl": Readers.accounts,
    "clusters": Readers.clusters,
    "broker": Readers.brokers,
}


def reader_of(kind: str, key: str) -> Callable[[Readers], None]:
    """What reads the records of this kind and key."""
    return READERS["acl" if kind == "sync" and key.endswith("/acl") else kind]
