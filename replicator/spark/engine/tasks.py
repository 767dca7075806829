"""Runs one Spark task per part of a job; outcomes are reported while other tasks still run."""

from __future__ import annotations

import asyncio
import importlib
import re
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final, TypeVar

from replicator.errors import ReplicatorError
from replicator.ranges.access import run
from replicator.ranges.rates import RateLimited, share
from replicator.spark.engine.session import SPECULATION, refuse_speculating, refuse_speculation
from replicator.spark.engine.slots import slots, wait_for_slots

__all__ = [
    "attempts_of",
    "bundles",
    "each_as_task",
    "in_turn",
    "is_last",
    "is_retry",
    "refuse_speculating_task",
    "run_all",
    "run_rate_limited",
    "together_as_task",
]

#: Seconds between two checks for outcomes.
_TICK: Final = 1.0
#: Spark's default of `spark.task.maxFailures`.
_FAILURES: Final = 4
#: Ranges that a task copies at a time, at most: each has one batch under way, and waits for its brokers meanwhile.
_TOGETHER: Final = 4

P = TypeVar("P")
R = TypeVar("R", bound=RateLimited)


def in_turn(parts: Iterable[P], broker: Callable[[P], str]) -> list[P]:
    """Parts of the brokers in turn, each broker's in their order: tasks that run together share the brokers."""
    before = Counter[str]()

    def turn(part: P) -> int:
        before[broker(part)] += 1
        return before[broker(part)]

    return sorted(parts, key=turn)


def bundles(spark: Any, parts: Sequence[P]) -> list[tuple[P, ...]]:
    """Parts that a task works on together, in their order: one each while there are slots for all."""
    if not parts:
        return []
    wait_for_slots(spark)
    size = min(_TOGETHER, -(-len(parts) // slots(spark)))
    return [tuple(parts[i : i + size]) for i in range(0, len(parts), size)]


def run_all(
    spark: Any,
    work: Callable[[int, Iterable[P]], Iterator[Any]],
    parts: Sequence[P],
    *,
    on_outcome: Callable[[Any], None],
    on_tick: Callable[[], None],
    at_once: int | None = None,
) -> None:
    """Runs `work` on each of `parts`, each in its own task.

    Args:
        work: takes the number of attempts per task, and its part; returns outcomes.
        on_outcome: called with each outcome once its task has ended.
        on_tick: called every second.
        at_once: maximum of concurrent tasks, however many slots there are.

    Raises:
        ConfigError: speculation is switched on.
        ReplicatorError: Spark gave up.
    """
    refuse_speculation(spark)
    context = spark.sparkContext
    # Outcomes come through an accumulator, since a job's own result is complete only after the last task.
    outcomes = context.accumulator([], _Rows())
    as_task, report = partial(work, attempts_of(spark)), partial(_add, outcomes)
    jobs = _jobs(parts, at_once)
    failure: list[Exception] = []
    over = threading.Event()
    group = f"rocketmq-replicator {uuid.uuid4().hex}"  # the session may have jobs of others

    def run() -> None:
        while True:
            try:
                job = jobs.popleft()
            except IndexError:
                return
            try:
                context.setJobGroup(group, "one task per queue", True)  # of the jobs that this thread submits
                if over.is_set():
                    return
                context.parallelize(job, len(job)).mapPartitions(as_task).foreach(report)
            except Exception as error:  # noqa: BLE001 - errors of the JVM have many types
                failure.append(error)

    threads = [threading.Thread(target=run, name="spark job", daemon=True) for _ in range(at_once or 1)]
    for thread in threads:
        thread.start()
    reported, alive = 0, True
    try:
        while alive:
            _join(threads, _TICK)
            alive = any(thread.is_alive() for thread in threads)
            found = list(outcomes.value)
            for outcome in found[reported:]:
                on_outcome(outcome)
            reported = len(found)
            on_tick()
    except BaseException:
        over.set()
        context.cancelJobGroup(group)
        _join(threads, _TICK)
        context.cancelJobGroup(group)  # of a thread that was about to submit a job
        raise
    if failure:
        raise _gave_up(failure[0])


def _gave_up(failure: Exception) -> ReplicatorError:
    lines = [line.strip() for line in str(failure).splitlines()]
    reason = next((line for line in lines if "Error" in line), type(failure).__name__)
    return ReplicatorError(f"Spark gave up: {reason}", hint="fix that and run it again")


def _jobs(parts: Sequence[P], at_once: int | None) -> deque[list[P]]:
    """One job runs as many tasks at a time as there are slots; with one job per task, each thread runs one task."""
    if not parts:
        return deque()  # Spark cannot run a job without parts
    return deque([list(parts)] if at_once is None else [[part] for part in parts])


def run_rate_limited(
    spark: Any,
    work: Callable[[R, int, Iterable[P]], Iterator[Any]],
    job: R,
    parts: Sequence[P],
    *,
    on_outcome: Callable[[Any], None],
    on_tick: Callable[[], None],
) -> None:
    """Like `run_all`; `work` gets its share of the rate limits of `job`.

    The limits hold even if slots are added later: no more tasks run at a time than those that share them.
    """
    at_once = None
    if parts and (job.rate_messages or job.rate_bytes):
        wait_for_slots(spark)
        at_once = min(len(parts) or 1, slots(spark))
        job = share(job, at_once)
    run_all(spark, partial(work, job), parts, on_outcome=on_outcome, on_tick=on_tick, at_once=at_once)


def _join(threads: Sequence[threading.Thread], seconds: float) -> None:
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


def each_as_task(
    attempts: int, parts: Iterable[P], one: Callable[[P], Any], failed: Callable[[P, str], Any]
) -> Iterator[Any]:
    """The body of a task: calls `one` with each part.

    The last attempt reports an error as the outcome that `failed` makes of it, so that other tasks continue.
    """
    for part in parts:
        try:
            yield one(part)
        except Exception as error:  # noqa: BLE001 - a bug fails its queue, not the whole job
            if not is_last(attempts):
                raise RuntimeError(_reason(error)) from None  # PySpark pickles it, so it has to be a plain type
            yield failed(part, _reason(error))


def together_as_task(
    attempts: int,
    bundles: Iterable[Sequence[P]],
    working: Callable[[bool], AbstractAsyncContextManager[Callable[[P], Awaitable[Any]]]],
    failed: Callable[[P, str], Any],
) -> Iterator[Any]:
    """As `each_as_task`, but the parts of a bundle are worked on at a time.

    A part that fails is tried again here, as often as Spark would: were the task tried again, the others' outcomes
    would be lost.

    Args:
        working: gives the function that is called with each part; takes whether they were tried before.
    """
    for parts in bundles:
        left: dict[int, P] = dict(enumerate(parts))
        for attempt in range(_attempt(), attempts):
            outcomes = run(_together(list(left.values()), working(attempt > 0)))
            for number, outcome in zip(list(left), outcomes, strict=True):
                if not isinstance(outcome, Exception):
                    del left[number]
                    yield outcome
                elif attempt + 1 >= attempts:
                    yield failed(left[number], _reason(outcome))
            if not left:
                break


async def _together(
    parts: Sequence[P], working: AbstractAsyncContextManager[Callable[[P], Awaitable[Any]]]
) -> list[Any]:
    """The outcome of each part, or its error."""
    try:
        async with working as one:
            return list(await asyncio.gather(*(_kept(one(part)) for part in parts)))
    except Exception as error:  # noqa: BLE001 - none of them can be worked on
        return [error for _ in parts]


async def _kept(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except Exception as error:  # noqa: BLE001 - a bug fails its queue, not the others
        return error


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, ReplicatorError) else f"{type(error).__name__}: {error}"


def is_retry() -> bool:
    """Whether an earlier attempt of this task has failed, or was lost."""
    return _attempt() > 0


def refuse_speculating_task() -> None:
    """As `refuse_speculation`, in a task: Spark SQL gives its tasks the session's settings as local properties.

    Raises:
        ConfigError: it is switched on.
    """
    context = importlib.import_module("pyspark").TaskContext.get()
    if context is not None:
        refuse_speculating(context.getLocalProperty(SPECULATION))


def is_last(attempts: int) -> bool:
    """Whether Spark would not try this task again."""
    return _attempt() + 1 >= attempts


def _attempt() -> int:
    context = importlib.import_module("pyspark").TaskContext.get()
    return 0 if context is None else int(context.attemptNumber())


def attempts_of(spark: Any) -> int:
    """How often Spark tries a task before it fails the whole job."""
    master = spark.sparkContext.master
    if master == "local" or master.startswith("local["):  # local-cluster[…] is a cluster
        given = re.fullmatch(r"local\[[^,\]]+,\s*(\d+)\]", master)
        return int(given[1]) if given else 1
    return int(spark.sparkContext.getConf().get("spark.task.maxFailures", str(_FAILURES)))


def _add(outcomes: Any, outcome: Any) -> None:
    outcomes.add([outcome])


class _Rows:
    """Collects the outcomes of tasks, in the form that Spark's accumulators need."""

    def zero(self, value: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802 - Spark's name
        return value1 + value2
