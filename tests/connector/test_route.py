"""What a route refuses at its first start, and what it does at each look at the clusters."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from replicator.connector.route import Route
from replicator.connector.running_pairs import RunningPairs
from replicator.connector.topics import RouteTopics
from replicator.errors import StartupError, Unreachable
from replicator.routing.limiter import RateLimiter
from replicator.routing.message_queue import MessageQueue
from replicator.routing.plan import TopicPlan
from replicator.routing.queue_map import Queue
from replicator.routing.state import QueueState
from replicator.settings import RouteSettings
from replicator.state.record import Kind
from replicator.state.store import Store
from tests.support.records import CONNECTOR


class Pair:
    """A queue of `broker` that is copied; `address` is where it is read."""

    topic = "T"

    def __init__(self, broker: str) -> None:
        self.state = SimpleNamespace(source=Queue(broker, 0), target=Queue("x", 0))
        self.address = ""

    def follow(self, address: str) -> None:
        self.address = address


def test_a_forgotten_broker_keeps_nobody_from_following_the_others() -> None:
    """Its queues run until the next plan, which comes after that look."""

    def reader(broker: str) -> Any:
        if broker == "forgotten":
            raise Unreachable(broker, "the name servers do not know it")
        return SimpleNamespace(address="h:1")

    pairs = [Pair("forgotten"), Pair("a")]
    route: Any = SimpleNamespace(
        _pairs=[(None, pair) for pair in pairs],
        _context=SimpleNamespace(source=SimpleNamespace(cluster=SimpleNamespace(reader=reader))),
        topics=SimpleNamespace(is_gone=lambda *_: False),
    )
    Route.follow_clusters(cast("Route", route))
    assert [pair.address for pair in pairs] == ["", "h:1"]


class Resident:
    """A queue that is copied by Spark, and has failed; its asyncio task `runs` or not."""

    topic, from_start = "T", False

    def __init__(self, name: str) -> None:
        self.state = SimpleNamespace(phase="FAILED", reason=name)


def test_a_queue_that_fails_before_spark_has_it_is_tried_again() -> None:
    """One that Spark has is watched by its task."""
    ours, sparks = Resident("ours"), Resident("spark's")
    restarted: list[object] = []

    class Pairs:
        def __iter__(self) -> Any:
            return iter([("ours", ours), ("spark's", sparks)])

        def runs(self, key: str) -> bool:
            return key == "spark's"

        def is_ending(self, _key: str) -> bool:
            return False

        def restart(self, key: str, pair: object, _group: object) -> None:
            restarted.append((key, pair))

    route: Any = SimpleNamespace(
        name="route",
        _pairs=Pairs(),
        _watchdog=SimpleNamespace(wants_restart=lambda *_: True),
        _pair=lambda state, **_: state.reason,
    )
    Route.watch(cast("Route", route), 0.0, cast("asyncio.TaskGroup", None))
    assert restarted == [("ours", "ours")]


class Odd:
    """A route that selects a topic which cannot be copied; `known` is what the group says of it."""

    def __init__(self, store: Store, *, known: bool) -> None:
        self.name = "route"
        self.known = known
        self.asked = 0
        source = SimpleNamespace(cluster=SimpleNamespace(name_topics=list))
        context: Any = SimpleNamespace(source=source, store=store, group="", system_names=lambda: ())
        self._context = context
        self.topics = RouteTopics("route", RouteSettings(topics=["odd"]), context)
        self.sync = SimpleNamespace(check=self._allowed)

    def plan(self) -> None:
        plan = TopicPlan(topic="odd", target_topic="odd", queue_map={}, problem="it is compacted")
        self.topics.plans = [plan]

    async def _allowed(self) -> None:
        return None

    async def _refuse(self) -> None:
        await Route._refuse(cast("Route", self))

    async def is_known(self) -> bool:
        self.asked += 1
        return self.known

    async def check(self) -> None:
        await Route.check(cast("Route", self), self.is_known)


async def test_a_first_start_is_refused_with_a_topic_that_cannot_be_copied(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="topic odd cannot be copied: it is compacted"):
        await Odd(Store(tmp_path), known=False).check()


async def test_a_topic_that_turned_up_since_keeps_no_worker_from_starting_again(tmp_path: Path) -> None:
    """Nor does it where the connector was deleted: it is not run at all."""
    store = Store(tmp_path)
    for value in (CONNECTOR, None):
        store.put(Kind.CONNECTOR, "route", value)
        route = Odd(store, known=False)
        await route.check()
        assert route.asked == 0


async def test_it_keeps_no_worker_from_joining_a_group_that_runs_the_connector(tmp_path: Path) -> None:
    """Be it new, or one that has lost its files."""
    route = Odd(Store(tmp_path), known=True)
    await route.check()
    assert route.asked == 1


async def test_a_queue_that_waits_for_what_was_released_is_stopped_at_once() -> None:
    """While a target broker is away, that is not known, and a drain would wait for its end in vain."""
    waits, parked = MessageQueue("T", "a", 0), MessageQueue("SCHEDULE_TOPIC_XXXX", "a", 0)
    ran: list[MessageQueue] = []

    async def forever(*_: object) -> None:
        await asyncio.Event().wait()

    def pair(key: MessageQueue) -> Any:
        async def run() -> None:
            ran.append(key)

        return SimpleNamespace(state=SimpleNamespace(topic=key.topic), drain=lambda: None, run=run)

    saved: list[Any] = []
    route: Any = SimpleNamespace(
        sync=SimpleNamespace(name="route"),
        topics=SimpleNamespace(parked={parked.topic: "there"}),
        parking=SimpleNamespace(ready=forever),
        _waiting=set(),
        _backfill=SimpleNamespace(stop=lambda _: None, over=nothing),
        _context=SimpleNamespace(drain_timeout=60.0),
        _source_is_given_up=False,
        _save=saved.extend,
    )
    ready = partial(Route._ready, route)
    route._pairs = RunningPairs(
        "route", task_of=str, ready=ready, on_end=lambda _: None, on_late=lambda: pytest.fail("cut off")
    )
    async with asyncio.timeout(5.0), asyncio.TaskGroup() as group:
        for key in (waits, parked):
            route._pairs.start(key, pair(key), group)
        await asyncio.sleep(0)
        await Route.stop(route, [str(waits), str(parked)])
    assert ran == [parked]
    assert len(route._pairs) == 0
    assert [state.topic for state in saved] == [parked.topic]


async def nothing(*_: object) -> None:
    return None


@pytest.mark.parametrize(("failed_over", "limited"), [(0, True), (1_000, True), (1_001, False)])
def test_what_was_pulled_of_a_source_that_is_given_up_is_not_held_back(failed_over: int, *, limited: bool) -> None:
    """It may be nowhere else; the route that is made when the source is back has its limits again."""
    state = SimpleNamespace(get=lambda *_: {"failed_over": failed_over})
    route: Any = SimpleNamespace(
        name="route",
        limiter=RateLimiter(),
        settings=RouteSettings(rate_messages=100, engine="spark"),
        _fraction=0.5,
        _by_spark=0.0,
        _context=SimpleNamespace(store=SimpleNamespace(state=state)),
        _shared=SimpleNamespace(options=SimpleNamespace(late_before=1_000)),
    )
    route._source_is_given_up = Route._source_is_given_up.fget(route)  # type: ignore[attr-defined]
    for name in ("_rates", "_rates_now"):
        setattr(route, name, partial(getattr(Route, name), route))
    Route._limit(route)
    assert route.limiter.messages == (50 if limited else 0)
    route.topics = SimpleNamespace(parked={})
    route.parking = SimpleNamespace(released=None)
    route._bulk = SimpleNamespace(residents=None)
    pair: Any = Route._pair(route, QueueState("T", Queue("a", 0), Queue("b", 0)), topic="T", from_start=False)
    assert pair.route.rates() == (50 if limited else 0, 0)
