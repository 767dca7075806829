"""In what order Spark's tasks begin, how often each is tried, and a job that has none."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import ReplicatorError
from replicator.ranges.rates import RateLimited
from replicator.spark.engine import tasks
from replicator.spark.engine.tasks import attempts_of, bundles, in_turn, run_all, run_rate_limited, together_as_task


def test_brokers_take_turns() -> None:
    """Whatever is left of one comes at the end."""
    given = [f"{broker}{queue}" for broker, queues in (("a", 4), ("b", 2), ("c", 1)) for queue in range(queues)]
    assert " ".join(in_turn(given, lambda part: part[0])) == "a0 b0 c0 a1 b1 a2 a3"


@given(st.lists(st.sampled_from("abc")))
def test_nothing_is_lost_and_each_brokers_order_stays(brokers: list[str]) -> None:
    """Of the first so many parts each broker has its share."""
    parts = list(enumerate(brokers))
    turns = in_turn(parts, lambda part: part[1])
    for broker in "abc":
        assert [part for part in turns if part[1] == broker] == [part for part in parts if part[1] == broker]
    for count in range(len(turns)):
        had = {broker: [part[1] for part in turns[:count]].count(broker) for broker in set(brokers)}
        unfinished = [n for broker, n in had.items() if n < brokers.count(broker)]
        assert not unfinished or max(had.values()) - min(unfinished) <= 1


def spark(master: str = "local[2,4]", **conf: str) -> Any:
    """A session as far as it is asked here; it can start no job."""
    context = SimpleNamespace(
        master=master,
        getConf=lambda: conf,
        accumulator=lambda *_: SimpleNamespace(value=[]),
    )
    return SimpleNamespace(sparkContext=context, conf=conf)


@pytest.mark.parametrize(
    ("master", "attempts"),
    [
        ("local", 1),
        ("local[*]", 1),
        ("local[2,7]", 7),
        ("local-cluster[2,1,1024]", 4),
        ("spark://127.0.0.1:7077", 4),
        ("yarn", 4),
    ],
)
def test_attempts_are_those_of_the_master(master: str, attempts: int) -> None:
    assert attempts_of(spark(master)) == attempts


def test_attempts_of_a_cluster_are_a_setting() -> None:
    assert attempts_of(spark("local-cluster[2,1,1024]", **{"spark.task.maxFailures": "9"})) == 9


@pytest.mark.parametrize(
    ("count", "at_a_time", "sizes"),
    [(0, 2, []), (8, 2, [4, 4]), (8, 6, [2] * 4), (3, 8, [1] * 3), (9, 2, [4, 4, 1])],
)
def test_a_task_has_a_few_parts(
    count: int, at_a_time: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more than it can copy at a time; one each where there are slots for all."""
    monkeypatch.setattr(tasks, "slots", lambda _: at_a_time)
    given = bundles(spark(), range(count))
    assert [len(each) for each in given] == sizes
    assert [part for each in given for part in each] == list(range(count))


def test_a_part_that_fails_is_tried_again_alone() -> None:
    """The others of its task have their outcomes; its own is the reason after the last attempt."""
    tried: list[tuple[bool, str]] = []

    @asynccontextmanager
    async def working(again: bool) -> AsyncIterator[Callable[[str], Awaitable[str]]]:
        async def one(part: str) -> str:
            tried.append((again, part))
            if part == "never" or (part == "later" and not again):
                raise ReplicatorError("refused")
            return f"{part} is done"

        yield one

    found = together_as_task(3, [("at once", "later", "never")], working, lambda part, why: f"{part}: {why}")
    assert list(found) == ["at once is done", "later is done", "never: refused"]
    assert tried == [
        (False, "at once"),
        (False, "later"),
        (False, "never"),
        (True, "later"),
        (True, "never"),
        (True, "never"),
    ]


def test_no_part_is_done_where_nothing_can_be_reached() -> None:
    @asynccontextmanager
    async def working(again: bool) -> AsyncIterator[Callable[[str], Awaitable[str]]]:
        raise OSError(f"no route, {again = }")
        yield

    found = together_as_task(2, [("a", "b"), ("c",)], working, lambda part, why: f"{part}: {why}")
    assert list(found) == [f"{part}: OSError: no route, again = True" for part in "abc"]


@pytest.mark.parametrize("limit", [0, 100])
def test_a_job_without_parts_ends_at_once(limit: int) -> None:
    """As of a topic without queues: there is nothing to do, and nothing fails."""
    run_rate_limited(
        spark(), _never, RateLimited(rate_messages=limit), [], on_outcome=pytest.fail, on_tick=lambda: None
    )


def _never(*_: object) -> Iterator[object]:
    raise AssertionError("there is nothing to run")


class Jobs:
    """A session whose jobs end when they are cancelled."""

    master = "local[2]"

    def __init__(self) -> None:
        self.groups: dict[str, threading.Event] = {}
        self._own = threading.local()

    def getConf(self) -> dict[str, str]:  # noqa: N802 - Spark's names
        return {}

    def accumulator(self, *_: object) -> Any:
        return SimpleNamespace(value=[])

    def setJobGroup(self, group: str, _text: str, _interrupt: bool) -> None:  # noqa: N802
        self._own.group = group
        self.groups.setdefault(group, threading.Event())

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802
        self.groups[group].set()

    def parallelize(self, *_: object) -> Any:
        return SimpleNamespace(mapPartitions=lambda _: SimpleNamespace(foreach=self._foreach))

    def _foreach(self, _: object) -> None:
        assert self.groups[self._own.group].wait(30)


def test_a_job_that_is_broken_off_cancels_no_other() -> None:
    """The session may have queues that live in it."""
    jobs = Jobs()
    both: Any = SimpleNamespace(sparkContext=jobs, conf={})
    ticked = threading.Event()

    def other() -> None:
        run_all(both, _never, [1], on_outcome=pytest.fail, on_tick=ticked.set)

    running = threading.Thread(target=other)
    running.start()
    assert ticked.wait(30)
    (its,) = jobs.groups
    with pytest.raises(KeyboardInterrupt):
        run_all(both, _never, [1], on_outcome=pytest.fail, on_tick=_interrupted)
    assert [event.is_set() for event in jobs.groups.values()] == [False, True]
    jobs.cancelJobGroup(its)
    running.join()


@pytest.mark.parametrize("late", ["grouped", "submitted"])
def test_no_job_is_left_that_was_being_submitted_when_all_are_cancelled(late: str) -> None:
    """With rates there are many jobs, one after another; whoever waits for their end would wait for one of them."""
    interrupted = threading.Event()

    class Slow(Jobs):
        left = 0

        def setJobGroup(self, *given: Any) -> None:  # noqa: N802
            super().setJobGroup(*given)
            if late == "grouped":
                assert interrupted.wait(30)

        def parallelize(self, *_: object) -> Any:
            if late == "submitted":
                assert interrupted.wait(30)
            self.left += 1
            self.groups[self._own.group] = threading.Event()  # what was cancelled before was another job
            return super().parallelize()

        def cancelJobGroup(self, group: str) -> None:  # noqa: N802
            super().cancelJobGroup(group)
            interrupted.set()

        def _foreach(self, _: object) -> None:
            super()._foreach(_)
            self.left -= 1

    jobs = Slow()
    threads = set(threading.enumerate())
    both: Any = SimpleNamespace(sparkContext=jobs, conf={})
    with pytest.raises(KeyboardInterrupt):
        run_all(both, _never, [1, 2], on_outcome=pytest.fail, on_tick=_interrupted, at_once=1)
    for thread in set(threading.enumerate()) - threads:
        thread.join(5)
    assert jobs.left == 0


def _interrupted() -> None:
    raise KeyboardInterrupt
