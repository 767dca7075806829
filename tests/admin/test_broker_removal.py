"""A broker that is forgotten twice at once: the second call finds nothing left to be moved."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.admin import broker_removal
from replicator.admin.broker_removal import Removal, forget, leave_as_it_is
from replicator.admin.failover_turn import NotNow
from replicator.connector.route import Route
from replicator.routing.queue_map import Queue
from replicator.state.connector_configs import State
from replicator.state.known_brokers import record_of
from tests.support.page import PagedWorker, paged_worker

GONE = Removal(side="target", broker="west-a", queues_to="west-b", lost="resend")


async def nothing(*_: object) -> None:
    await asyncio.sleep(0)


class Removing:
    """A worker from whose target `west-a` was taken away; `west-b` is there."""

    def __init__(self, paged: PagedWorker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store, self.connectors = paged.store, paged.connectors
        worker: Any = paged.worker
        self.worker = worker
        cluster = SimpleNamespace(refresh=self.refresh, brokers=lambda: {"west-b": 0})
        side = SimpleNamespace(cluster=cluster, masters={"west-b"}, topics={"west-b": {}})
        worker.context = SimpleNamespace(source=side, target=side)
        worker.refresher = SimpleNamespace(refresh=nothing)
        paged.route = object.__new__(Route)
        for name in ("plan", "make_ready"):
            monkeypatch.setattr(Route, name, nothing if name == "make_ready" else lambda _: None)
        monkeypatch.setattr(broker_removal, "stopped", self.stopped)
        monkeypatch.setattr(broker_removal, "running", lambda *_: False)
        self.back = False

    async def refresh(self) -> Any:
        return SimpleNamespace(brokers={"west-b": 0} | ({"west-a": 0} if self.back else {}))

    async def stopped(self, *_: object) -> bool:
        await asyncio.sleep(0.01)
        return True


@pytest.fixture
def paged(tmp_path: Path) -> Iterator[PagedWorker]:
    with paged_worker(tmp_path) as made:
        yield made


@pytest.fixture
def removing(paged: PagedWorker, monkeypatch: pytest.MonkeyPatch) -> Removing:
    return Removing(paged, monkeypatch)


async def test_two_at_once(removing: Removing) -> None:
    """Both end well, the queues are moved once, and the connector runs on."""
    first, second = await asyncio.gather(forget(removing.worker, GONE), forget(removing.worker, GONE))
    assert [each["moved_to"] for each in first["queues"]] == [
        {"broker": "west-b", "queue": 0},
        {"broker": "west-b", "queue": 1},
    ]
    assert (second["queues"], second["queues_to"]) == ([], "")
    assert removing.store.whole_queue_map("route", "orders") == {
        Queue("east-a", n): Queue("west-b", n) for n in range(2)
    }
    assert removing.connectors.get("route").state is State.RUNNING


async def test_two_topics_of_one_name_at_the_target(removing: Removing) -> None:
    """Retries of POP consumers, of brokers of two versions: each queue still gets one of its own, however often."""
    retries = {"%RETRY%G_T": "west-a", "%RETRY%G+T": "west-a", "%RETRY%G+": "west-b"}
    for queue_id, (topic, broker) in enumerate(retries.items()):
        removing.store.save_queue_map("route", topic, "%RETRY%G_T", {Queue("east-a", 0): Queue(broker, queue_id)})
    await forget(removing.worker, GONE)
    maps = removing.store.queue_maps("route")
    assert sorted(target for topic in retries for target in maps[topic].values()) == [
        Queue("west-b", 2),
        Queue("west-b", 3),
        Queue("west-b", 4),
    ]
    assert maps["orders"] == {Queue("east-a", n): Queue("west-b", n) for n in range(2)}


async def test_another_worker_moves_them_meanwhile(removing: Removing, monkeypatch: pytest.MonkeyPatch) -> None:
    """While this one waits for the tasks to stop."""

    async def moved(*_: object) -> bool:
        queues = {Queue("east-a", n): Queue("west-b", n) for n in range(2)}
        removing.store.save_queue_map("route", "orders", "orders", queues)
        return True

    monkeypatch.setattr(broker_removal, "stopped", moved)
    assert len((await forget(removing.worker, GONE))["queues"]) == 2
    assert removing.connectors.get("route").state is State.RUNNING


async def test_somebody_stops_the_connector_meanwhile(removing: Removing, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a failover does, which opens its topics then: it is not resumed."""

    async def decided(*_: object) -> bool:
        removing.connectors.set_state("route", State.STOPPED)
        leave_as_it_is(removing.store, "route")
        return True

    monkeypatch.setattr(broker_removal, "stopped", decided)
    await forget(removing.worker, GONE)
    assert removing.connectors.get("route").state is State.STOPPED


async def test_a_broker_that_comes_back_meanwhile_is_kept(
    removing: Removing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its connectors are being stopped, which takes up to a minute."""
    before = removing.store.whole_queue_map("route", "orders")

    async def back(*_: object) -> bool:
        removing.back = True
        return True

    monkeypatch.setattr(broker_removal, "stopped", back)
    with pytest.raises(NotNow, match="list broker west-a: it is not gone"):
        await forget(removing.worker, GONE)
    assert removing.store.whole_queue_map("route", "orders") == before
    assert removing.connectors.get("route").state is State.RUNNING


@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_broker_that_comes_back_while_another_removal_goes_on(removing: Removing, side: Any) -> None:
    """It has waited for its turn since it was last looked at."""
    removal = Removal(side=side, broker="west-a", queues_to="west-b", lost="skip")
    if side == "source":
        removing.store.save_queue_map("route", "bills", "bills", {Queue("west-a", 0): Queue("west-b", 7)})
    async with broker_removal._moving:
        waits = asyncio.create_task(forget(removing.worker, removal))
        await asyncio.sleep(0.01)
        removing.back = True
    with pytest.raises(NotNow, match="it is not gone"):
        await waits
    assert record_of(removing.store.state, side, "west-a") is None


@pytest.mark.parametrize("resumed", [True, False])
async def test_nothing_is_moved_once_somebody_has_resumed(
    removing: Removing, monkeypatch: pytest.MonkeyPatch, *, resumed: bool
) -> None:
    """Or while a task of it runs after all: the map is what it copies by."""
    before = removing.store.whole_queue_map("route", "orders")

    async def meanwhile(*_: object) -> bool:
        if resumed:
            removing.connectors.set_state("route", State.RUNNING)
        return True

    monkeypatch.setattr(broker_removal, "stopped", meanwhile)
    monkeypatch.setattr(broker_removal, "running", lambda *_: not resumed)
    with pytest.raises(NotNow, match="connector route was resumed meanwhile"):
        await forget(removing.worker, GONE)
    assert removing.store.whole_queue_map("route", "orders") == before
    assert removing.connectors.get("route").state is State.RUNNING


async def test_a_removal_is_completed_after_a_failover(removing: Removing, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was interrupted, the route was failed over, and the operator repeats it as its message says."""

    async def interrupted(*_: object) -> bool:
        raise ZeroDivisionError

    async def not_resumed(*_: object) -> None:
        """The worker has died."""

    with monkeypatch.context() as patched:
        patched.setattr(broker_removal, "stopped", interrupted)
        patched.setattr(broker_removal, "_resume", not_resumed)
        with pytest.raises(ZeroDivisionError):
            await forget(removing.worker, GONE)
    assert removing.connectors.get("route").state is State.STOPPED
    leave_as_it_is(removing.store, "route")
    await forget(removing.worker, GONE)
    assert removing.connectors.get("route").state is State.STOPPED


async def test_a_failover_of_some_topics_is_waited_for(removing: Removing) -> None:
    """It holds the connector stopped, and resumes it: a removal would take that for how it was."""
    removing.worker.switching.add("route")
    with pytest.raises(NotNow, match="a failover of connector route is going on"):
        await forget(removing.worker, GONE)
    removing.worker.switching.clear()
    await forget(removing.worker, GONE)
    assert removing.connectors.get("route").state is State.RUNNING
