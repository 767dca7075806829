"""When a topic that was deleted at the target may be created again, by whichever part of a worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.client.topics import TopicConfig
from replicator.connector import topics as module
from replicator.connector.other_sources import TargetCopies
from replicator.connector.topics import RouteTopics
from replicator.errors import StartupError
from replicator.routing.options import Identity
from replicator.routing.queue_map import Queue
from replicator.settings import RouteSettings
from replicator.state.connector_configs import Connectors, State
from replicator.state.record import Kind
from replicator.state.store import Store

ORDERS = TopicConfig(name="orders", read_queues=1, write_queues=1)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """`now` is the time."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def _topics(store: Store, target: dict[str, dict[str, TopicConfig]], pattern: str = "orders") -> RouteTopics:
    """A route from broker `a`, which looks at the clusters every 5 s."""
    context: Any = SimpleNamespace(
        source=SimpleNamespace(
            topics={"a": {"orders": ORDERS}}, complete={"a"}, cluster=SimpleNamespace(name_topics=list)
        ),
        target=SimpleNamespace(topics=target, configs={}),
        identity=Identity("east", "west"),
        store=store,
        group="",
        metadata_refresh_interval=5.0,
        system_names=lambda: (),
    )
    return RouteTopics("route", RouteSettings(topics=[pattern], retry_topics=True), context)


def test_a_deleted_topic_is_created_once_all_workers_have_missed_it(tmp_path: Path, clock: SimpleNamespace) -> None:
    """Until then no plan has it to be created, neither the leader's nor that of the metadata task."""
    target = {"x": {"orders": ORDERS}}
    store = Store(tmp_path)
    store.save_queue_map("route", "orders", "orders", {Queue("a", 0): Queue("x", 0)})
    topics = _topics(store, target)
    topics.plan()
    assert topics.problems == {}
    del target["x"]["orders"]
    for _ in range(3):
        topics.plan()
        assert [plan.writes for plan in topics.plans] == [()]
        assert "deleted at the target" in topics.problems["orders"]
        assert topics.tasks == {"route/orders"}
        clock.now += 4.0
    topics.plan()
    assert topics.problems == {}
    assert [broker for plan in topics.plans for broker, _ in plan.writes] == ["x"]
    target["x"]["orders"] = ORDERS
    topics.plan()
    del target["x"]["orders"]
    topics.plan()
    assert "orders" in topics.problems, "it is held back again"
    target["x"]["orders"] = ORDERS  # somebody else has created it
    topics.plan()
    assert topics.problems == {}
    store.close()


def test_what_was_never_there_is_created_at_once(tmp_path: Path, clock: SimpleNamespace) -> None:
    """So it is for a job, for a topic that moves to another broker, and after a start."""
    store = Store(tmp_path)
    store.save_queue_map("route", "orders", "orders", {Queue("a", 0): Queue("x", 0)})
    target: dict[str, dict[str, TopicConfig]] = {"y": {}}
    topics = _topics(store, target)
    topics.plan()  # the broker is away
    target["x"] = {}
    topics.plan()
    assert topics.problems == {}
    assert [broker for plan in topics.plans for broker, _ in plan.writes] == ["x"]
    store.close()


@pytest.mark.parametrize(("protect", "perm"), [(True, 4), (False, 6)])
async def test_a_new_topic_of_a_protected_target_is_never_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, protect: bool, perm: int
) -> None:
    """One that is there already keeps its perm until the metadata task sees to it."""
    written: list[TopicConfig] = []

    async def write(_broker: object, topic: TopicConfig) -> None:
        written.append(topic)

    monkeypatch.setattr(module, "write_topic", write)
    topics = _topics(Store(tmp_path), {"x": {}})
    topics.settings = topics.settings.model_copy(update={"protect_target": protect})
    context: Any = topics._context
    context.target.cluster = SimpleNamespace(writer=lambda _: None)
    groups: Any = SimpleNamespace(make=_nothing)
    for there in ({}, {"orders": ORDERS}):
        context.target.topics["x"] = there
        topics.plan()
        (plan,) = topics.plans
        assert await topics._make(plan, groups, lambda: True)
        context.source.topics["a"]["orders"] = replace(ORDERS, read_queues=2, write_queues=2)
    assert [topic.perm for topic in written] == [perm, 6]


async def test_a_target_queue_that_is_found_is_given_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is lost, and two topics of the source have one name at the target: retries of POP consumers."""
    names, target = ["%RETRY%G_orders", "%RETRY%G+orders"], "%RETRY%G_orders"
    topics = _topics(Store(tmp_path), {"x": {target: replace(ORDERS, name=target, read_queues=4, write_queues=4)}})
    context: Any = topics._context
    context.source.topics["a"] |= {name: replace(ORDERS, name=name) for name in names}

    async def read(topic: str, queues: Iterable[Queue], *, of: str = "") -> TargetCopies:
        """Queue 2 is of the second one; whose queue 0 and 1 were cannot be said."""
        assert bool(of) == (topic == target)
        if topic != target:
            return TargetCopies({}, Counter(), set())
        ours = {Queue("a", 0): Queue("x", 2)} if of == names[1] and Queue("x", 2) in queues else {}
        return TargetCopies(ours, Counter(), {Queue("x", 0), Queue("x", 1)})

    monkeypatch.setattr(topics._others, "read", read)
    topics.plan()
    assert await topics.find_maps() == {
        "orders": {},
        names[0]: {},
        names[1]: {Queue("a", 0): Queue("x", 2)},
    }
    topics.plan()
    maps = {plan.topic: plan.queue_map for plan in topics.plans}
    assert maps[names[0]] == {Queue("a", 0): Queue("x", 3)}
    topics._context.store.close()


@pytest.mark.parametrize("changed", ["deleted", "stopped", "configured"])
@pytest.mark.parametrize("at", ["reading", "making"])
async def test_nothing_more_is_made_for_a_connector_that_is_not_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, at: str, changed: str
) -> None:
    """Nor does a queue map remain of one that was deleted: another one of its name would take it for its own."""
    store = Store(tmp_path)
    connectors = Connectors(store)
    connectors.create("route", {"topics": ["o.*"]})
    names, written = ["o1", "o2", "o3"], list[str]()

    def change(when: str) -> None:
        if when == at and changed == "deleted":
            connectors.delete("route")
        elif when == at:
            connectors.set_state("route", State.STOPPED)
            if changed == "configured":
                connectors.update("route", {"topics": ["o1"]})

    async def write(_broker: object, topic: TopicConfig) -> None:
        written.append(topic.name)
        change("making")

    async def read(*_: object, **__: object) -> TargetCopies:
        change("reading")
        return TargetCopies({Queue("a", 0): Queue("x", 0)} if at == "reading" else {}, Counter(), set())

    topics = _to_be_made(store, monkeypatch, names, write)
    monkeypatch.setattr(topics._others, "read", read)
    with pytest.raises(StartupError, match="connector route was deleted, stopped or changed"):
        await topics.make_ready()
    assert written == (["o1"] if at == "making" else [])
    assert store.state.items(Kind.TASK) == {}
    store.close()


async def test_what_interrupts_the_first_topics_makes_none_of_them_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late ones are copied from their beginning, whatever `start_from` says; rates interrupt nothing."""
    store, written = Store(tmp_path), list[str]()
    connectors = Connectors(store)
    connectors.create("route", {"topics": ["o.*"], "start_from": "latest"})

    async def write(_broker: object, topic: TopicConfig) -> None:
        written.append(topic.name)
        if len(written) == 2:
            connectors.update("route", {**connectors.get("route").config, "rate_messages": 5})
        if len(written) == 3:
            connectors.set_state("route", State.STOPPED)

    topics = _to_be_made(store, monkeypatch, ["o1", "o2", "o3", "o4"], write)
    with pytest.raises(StartupError):
        await topics.make_ready()
    assert written == ["o1", "o2", "o3"]
    assert [store.is_mapped("route", name) for name in written] == [True, True, False]
    connectors.set_state("route", State.RUNNING)
    await topics.make_ready()
    names = ["o1", "o2", "o3", "o4"]
    assert [store.begins_late("route", name, Queue("a", 0)) for name in names] == [False] * 4
    context: Any = topics._context
    context.source.topics["a"]["o5"] = replace(ORDERS, name="o5")
    topics.plan()
    await topics.make_ready()
    assert store.begins_late("route", "o5", Queue("a", 0))
    store.close()


def _to_be_made(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    names: list[str],
    write: Callable[[object, TopicConfig], Awaitable[None]],
) -> RouteTopics:
    """A route with topics that the target does not have, made by `write` one after the other."""

    async def read(*_: object, **__: object) -> TargetCopies:
        return TargetCopies({}, Counter(), set())

    monkeypatch.setattr(module, "_AT_ONCE", 1)
    monkeypatch.setattr(module, "write_topic", write)
    monkeypatch.setattr(module, "RetryGroups", lambda *_: SimpleNamespace(make=_nothing))
    topics = _topics(store, {"x": {}}, "o.*")
    context: Any = topics._context
    context.source.topics["a"] = {name: replace(ORDERS, name=name) for name in names}
    context.source.cluster, context.target.refresh = None, _nothing
    context.target.cluster = SimpleNamespace(writer=lambda _: None)
    monkeypatch.setattr(topics._others, "read", read)
    monkeypatch.setattr(topics, "_finds_room", _finds_room)
    topics.plan()
    return topics


async def _finds_room(*_: object) -> bool:
    return True


async def _nothing(*_: object) -> None:
    return None
