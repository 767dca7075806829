"""What a task does with what its owner tells it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from replicator.errors import Unreachable
from replicator.routing.options import Identity
from replicator.routing.state import Phase
from replicator.settings import RouteSettings
from replicator.spark.resident.lease import GrantedLease
from replicator.spark.resident.messages import Drain, End, Grant, Released, Work, write
from replicator.spark.resident.task import _Task
from replicator.spark.resident.work import Rates, work_of
from tests.spark.resident.test_work import pair_of
from tests.support.worker import until


class Channel:
    """Says what a test has written, and then that there is no more to do."""

    def __init__(self, *told: Work | Released | Grant | Drain) -> None:
        self._given = [*map(write, told), write(End())]

    async def receive(self) -> bytes:
        return self._given.pop(0)


@pytest.fixture
async def make() -> AsyncIterator[Callable[..., _Task]]:
    """A task with that channel, which reaches no cluster."""
    made: list[_Task] = []

    def away(broker: str) -> Any:
        raise Unreachable(broker, "it is away")

    def task(*told: Work | Released | Grant) -> _Task:
        job: Any = SimpleNamespace(
            memory_bytes=1, stall_timeout=60.0, settle_timeout=0.0, identity=Identity("s", "t"), sealer=None
        )
        channel: Any = Channel(*told)
        cluster: Any = SimpleNamespace(master=away)
        made.append(_Task(job, channel, GrantedLease(), cluster, cluster))
        return made[-1]

    yield task
    for each in made:
        runs = [queue.run for queue in each._queues.values() if queue.run is not None]
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)


def work(number: int, settings: RouteSettings, rates: Rates) -> Work:
    (found,) = work_of([pair_of(number, settings)], rates)
    assert isinstance(found, Work)
    return found


async def test_a_route_has_its_limit_at_once(make: Callable[..., _Task]) -> None:
    """In a task that runs already, before the next grant says it."""
    task = make(Grant(1, 1.0, {}, 0.0, {}), work(0, RouteSettings(rate_messages=70), {"route": (70, 0)}))
    await task._listen()
    assert task._shared("route").limiter.messages == 70


async def test_queues_before_and_after_a_change_of_rates_share_a_limit(make: Callable[..., _Task]) -> None:
    """The limit that both of them wait for is the new one; other terms are another route."""
    changed = RouteSettings(rate_messages=50)
    task = make(work(0, RouteSettings(rate_messages=70), {"route": (70, 0)}))
    await task._listen()
    before = task._shared("route")
    task._channel = Channel(work(1, changed, {"route": (50, 0)}))  # type: ignore[assignment]
    await task._listen()
    assert task._shared("route") is before
    assert before.limiter.messages == 50
    task._channel = Channel(Grant(1, 1.0, {"route": (30, 0)}, 0.0, {}))  # type: ignore[assignment]
    await task._listen()
    assert before.limiter.messages == 30


@pytest.mark.parametrize("rate", [0, 1])
async def test_what_the_limits_hold_back_is_sent_where_they_are_lifted(
    make: Callable[..., _Task], rate: int
) -> None:
    """Of a source that is given up it may be nowhere else; of another one whoever continues copies it."""
    task = make(work(0, RouteSettings(), {"route": (1, 0)}))
    await task._listen()
    ((key, queue),) = task._queues.items()
    limiter = task._shared("route").limiter
    await limiter.acquire(1000, 0)  # the first batch went, into debt
    throttled = asyncio.create_task(limiter.acquire(1, 0, given_up=lambda: queue.draining))
    await asyncio.sleep(0)
    task._channel = Channel(Drain([key], {"route": (rate, 0)}))  # type: ignore[assignment]
    await task._listen()
    async with asyncio.timeout(5):
        assert await throttled is (rate == 0)


async def test_latency_does_not_depend_on_the_clock_of_the_executors_machine(make: Callable[..., _Task]) -> None:
    """The worker's is five seconds ahead of this one, and the source broker's two ahead of the worker's."""
    grant = Grant(1, 1.0, {}, time.time() + 5.0, {"a": 2.0})
    task = make(work(0, RouteSettings(), {}), grant)
    await task._listen()
    task._channel = Channel(work(1, RouteSettings(), {}))  # type: ignore[assignment]
    await task._listen()
    assert [queue.state.progress.skew for queue in task._queues.values()] == [pytest.approx(7.0, abs=0.5)] * 2


async def test_what_was_released_is_not_copied(make: Callable[..., _Task]) -> None:
    """Of any route that it is told of, however often; a route with other terms has not released anything else."""
    settings = RouteSettings()
    task = make(Released("route", {"T": [b"a"]}), work(0, settings, {}), Released("route", {"T": [b"b"]}))
    await task._listen()
    released = task._shared("route").options.released
    assert released is not None
    assert sorted(released.of("T")) == [b"a", b"b"]
    task._channel = Channel(work(1, RouteSettings(tags=["t"]), {}))  # type: ignore[assignment]
    await task._listen()
    assert task._shared("route").options.released is released


async def test_a_queue_has_one_name_in_the_log(make: Callable[..., _Task], monkeypatch: pytest.MonkeyPatch) -> None:
    """That of all other lines, with its connector beside it: a key of the state has both in one."""
    monkeypatch.setattr("replicator.spark.resident.task._RESTART_INTERVAL", 0.0)

    def broken(route: str) -> Any:
        raise ValueError(route)

    task = make(Grant(1, 1.0, {}, 0.0, {}), work(0, RouteSettings(), {}))
    monkeypatch.setattr(task, "_shared", broken)
    monkeypatch.setattr(task._watchdog, "wants_restart", lambda key, state, at: state.phase is Phase.FAILED)
    task._lease.ask(1)
    with capture_logs() as lines:
        await task._listen()
        restarts = asyncio.create_task(task._restart_failed())
        await until(lambda: any(line["event"] == "queue restarted" for line in lines))
        restarts.cancel()
    (queue,) = task._queues.values()
    named = {line["event"]: (line["connector"], line["queue"]) for line in lines if "queue" in line}
    at = "route", f"{queue.part.topic}/{queue.part.source.broker}/{queue.part.source.queue_id}"
    assert named == {"queue failed": at, "queue restarted": at}
