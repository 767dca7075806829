"""The worker's side, with tasks that say what a test wants: who gets which queue, and when none may send to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest

from replicator.routing.state import Phase
from replicator.spark.resident import owner as under_test
from replicator.spark.resident import pair as pairs
from replicator.spark.resident.channel import Channel, ChannelLost
from replicator.spark.resident.jobs import SparkJobs
from replicator.spark.resident.messages import Hello, write
from replicator.spark.resident.pair import ResidentPair
from tests.spark.resident.played import GRANT, Scene, Task
from tests.support.worker import until


def _drains(task: Task, pair: ResidentPair) -> bool:
    return pair.state.key in task.drains


def _granted(task: Task, before: int) -> bool:
    return len(task.grants) > before


async def test_queues_are_divided_and_followed(make: Callable[[int], Scene]) -> None:
    """As many jobs as there is room for; later queues go to the job with the fewest; states are what tasks say."""
    scene = make(2)
    assert not scene.residents.has_queues
    pairs = [scene.add(i) for i in range(3)]
    tasks = await scene.tasks(2)
    await until(lambda: sorted(len(task.parts) for task in tasks) == [1, 2])
    assert scene.residents.has_queues
    assert scene.firsts == 1
    pairs.append(scene.add(3))
    await until(lambda: [len(task.parts) for task in tasks] == [2, 2])
    for task in tasks:
        task.report(*(task.state(key, 42) for key in task.parts))
    await until(lambda: [pair.state.progress.position for pair in pairs] == [42] * 4)
    assert {pair.state.phase for pair in pairs} == {Phase.RUNNING}
    await until(lambda: all(task.grants for task in tasks))
    assert {task.grants[0].rates["route"] for task in tasks} == {(500, 0)}
    assert tasks[0].grants[0].seconds == GRANT
    assert tasks[0].late_before == 1234


async def test_a_queue_is_drained(make: Callable[[int], Scene]) -> None:
    """It ends when its task says so; with the last one the job ends, and Spark with the last job."""
    scene = make(1)
    pairs = [scene.add(i) for i in range(2)]
    (task,) = await scene.tasks(1)
    for pair, run in zip(pairs, scene.runs, strict=True):
        pair.drain()
        await until(partial(_drains, task, pair))
        assert not run.done()
        task.report(task.state(pair.state.key, 7), ended=True)
        await run
        assert (pair.state.phase, pair.state.progress.position) == (Phase.STOPPED, 7)
    await until(lambda: task.over and not scene.spark.opened)


async def test_a_queue_that_is_to_end_is_told_its_limits_first(make: Callable[[int], Scene]) -> None:
    """A source that is given up has none any more, and a task would hear of it too late by the next grant."""
    scene = make(1)
    pair = scene.add(0)
    (task,) = await scene.tasks(1)
    scene.rates = (0, 0)
    pair.drain()
    await until(partial(_drains, task, pair))
    assert task.rates == {"route": (0, 0)}
    assert not task.grants


async def test_a_lost_task_is_followed_by_another_when_it_may_not_send_any_more(
    make: Callable[[int], Scene],
) -> None:
    """What it was granted last runs out first; the next one begins where the last one was seen."""
    scene = make(1)
    pair = scene.add(0)
    (task,) = await scene.tasks(1)
    task.report(task.state(pair.state.key, 42))
    await until(lambda: task.grants)
    clock = asyncio.get_running_loop().time
    lost = clock()
    task.channel.close()
    await until(lambda: pair.state.phase is Phase.WAITING)
    assert "its Spark task is gone" in pair.state.reason
    (again,) = await scene.tasks(1)
    assert again is not task
    assert clock() - lost > GRANT * 0.8
    assert again.parts[pair.state.key].state.progress.position == 42


async def test_a_second_task_of_a_job_takes_over_from_the_first(
    make: Callable[[int], Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark took an executor for lost that lives: its task is dropped, and may not send when the other begins."""
    monkeypatch.setattr(pairs, "AGAIN_FIRST", 30.0)
    scene = make(1)
    scene.add(0)
    (first,) = await scene.tasks(1)
    first.report()
    await until(lambda: first.grants)
    second = Task(first.job)
    scene.spark.tasks.append(second)
    running = asyncio.create_task(second.run())
    await until(lambda: first.over)
    assert not second.parts
    await until(lambda: second.parts)
    second.channel.close()
    await running


async def test_no_lease_no_grant(make: Callable[[int], Scene]) -> None:
    """A task never gets more than the worker has left."""
    scene = make(1)
    scene.add(0)
    (task,) = await scene.tasks(1)
    for left, granted in ((0.1, 0.1), (-3.0, 0.0)):
        scene.left = left
        before = len(task.grants)
        task.report()
        await until(partial(_granted, task, before))
        assert task.grants[-1].seconds == granted


async def test_a_queue_is_given_up(make: Callable[[int], Scene]) -> None:
    """When it is cancelled it takes as long as its task may send; the others of that task go on elsewhere."""
    scene = make(1)
    pairs = [scene.add(i) for i in range(2)]
    (task,) = await scene.tasks(1)
    await until(lambda: len(task.parts) == 2)
    task.report()
    await until(lambda: task.grants)
    clock = asyncio.get_running_loop().time
    began = clock()
    scene.runs[0].cancel()
    await asyncio.wait([scene.runs[0]])
    assert clock() - began > GRANT * 0.8
    (again,) = await scene.tasks(1)
    assert list(again.parts) == [pairs[1].state.key]


async def test_drained_while_no_task_has_it(make: Callable[[int], Scene]) -> None:
    """A queue that no task was told of is as it was; one whose task is gone may have been written to since."""
    scene = make(1)
    scene.spark.refusal = "no room"
    pair = scene.add(0, clean=True)
    await until(lambda: pair.state.phase is Phase.WAITING)
    assert pair.state.reason == "Spark cannot be used: no room"
    pair.drain()
    await scene.runs[0]
    assert (pair.state.phase, pair.state.progress.clean) == (Phase.STOPPED, True)
    scene.spark.refusal = ""
    other = scene.add(1, clean=True)
    (task,) = await scene.tasks(1)
    task.report()
    await until(lambda: task.grants)
    task.channel.close()
    await until(lambda: other.state.phase is Phase.WAITING)
    other.drain()
    await scene.runs[1]
    assert (other.state.phase, other.state.progress.clean) == (Phase.STOPPED, False)


async def test_what_the_audit_finds_is_kept(make: Callable[[int], Scene]) -> None:
    """In the worker's own audit log; and the trail is shown as the task has it."""
    scene = make(1)
    pair = scene.add(0)
    (task,) = await scene.tasks(1)
    state = task.state(pair.state.key, 42)
    state.audit.restore({"to": 40, "rules": 1, "verified": 39, "differences": {"missing": 1}})
    event = {"action": "difference", "kind": "missing", "source_offset": 7}
    task.report(state, events=[event])
    task.report(state)
    await until(lambda: len(task.grants) == 2)
    assert scene.recorded == [event]
    audit = pair.state.audit
    assert (audit.verified_to, audit.verified, audit.differences) == (40, 39, {"missing": 1})
    assert audit.before.verified == 0


async def test_a_session_that_ends_is_replaced(make: Callable[[int], Scene]) -> None:
    """Its queues begin again in another one, none before what its tasks were granted has run out."""
    scene = make(2)
    made = [scene.add(i) for i in range(2)]
    tasks = await scene.tasks(2)
    for task in tasks:
        task.report(*(task.state(key, 42) for key in task.parts))
    await until(lambda: all(task.grants for task in tasks))
    scene.spark.gone = True
    clock = asyncio.get_running_loop().time
    lost = clock()
    for task in tasks:
        task.channel.close()
    await until(lambda: "Spark cannot be used: its JVM has ended" in made[0].state.reason)
    scene.spark.gone = False
    again = await scene.tasks(2)
    assert clock() - lost > GRANT * 0.8
    assert {part.state.progress.position for task in again for part in task.parts.values()} == {42}
    assert not any(part.state.progress.clean for task in again for part in task.parts.values())


async def test_clean_is_given_out_once(make: Callable[[int], Scene]) -> None:
    """A second task must not rely on what the first one was told: it may have sent something. Nor may others."""
    scene = make(1)
    state = scene.add(0, clean=True).state
    assert not state.progress.clean  # it is saved at any moment
    (task,) = await scene.tasks(1)
    assert task.parts[state.key].state.progress.clean
    assert not state.progress.clean
    task.channel.close()
    await until(lambda: task.over)
    (again,) = await scene.tasks(1)
    assert not again.parts[state.key].state.progress.clean


async def test_a_queue_is_clean_when_its_task_has_ended_it(make: Callable[[int], Scene]) -> None:
    """One that has not begun says what it was told: it may begin to send at any time."""
    scene = make(1)
    pair = scene.add(0)
    (task,) = await scene.tasks(1)
    state = task.state(pair.state.key, 42)
    state.progress.clean = True
    task.report(state)
    await until(lambda: task.grants)
    assert pair.state.progress.position == 42
    assert not pair.state.progress.clean
    pair.drain()
    task.report(state, ended=True)
    await asyncio.wait(scene.runs)
    assert pair.state.progress.clean


@pytest.mark.parametrize("how", ["drained", "cancelled"])
async def test_a_queue_that_ends_after_its_session_waits_for_its_task(
    make: Callable[[int], Scene], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Which may outlive the session, and send as long as it was allowed to."""
    monkeypatch.setattr(under_test, "_GRANT", 3.0)
    scene = make(1)
    pair = scene.add(0)
    (task,) = await scene.tasks(1)
    clock = asyncio.get_running_loop().time
    granted = clock()
    task.report(task.state(pair.state.key, 42))
    await until(lambda: task.grants)
    scene.spark.gone = True
    scene.spark.refusal = "no room"
    task.channel.close()
    await until(lambda: "no room" in pair.state.reason)
    if how == "drained":
        pair.drain()
    else:
        scene.runs[0].cancel()
    await asyncio.wait(scene.runs)
    assert clock() - granted > 2.9


async def test_a_task_that_does_not_report_is_replaced(
    make: Callable[[int], Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hangs, and Spark does not notice: its queues wait for another one, and its job is submitted again."""
    monkeypatch.setattr(under_test, "_SILENT", 0.5)
    scene = make(1)
    pair = scene.add(0)
    (task,) = await scene.tasks(1)
    task.hangs = True
    await until(lambda: pair.state.phase is Phase.WAITING)
    assert "does not report" in pair.state.reason
    assert not task.over
    await until(lambda: task.over, what="the job is cancelled")
    (again,) = await scene.tasks(1)
    assert again.parts.keys() == {pair.state.key}


async def test_a_task_that_is_followed_by_another_is_left_to_spark(
    make: Callable[[int], Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which has noticed by itself that the first one was lost."""
    monkeypatch.setattr(under_test, "_SILENT", 0.5)
    cancelled: list[int] = []
    scene = make(1)
    pair = scene.add(0)
    (task,) = await scene.tasks(1)
    monkeypatch.setattr(scene.spark, "cancel", cancelled.append)
    task.hangs = True
    await until(lambda: pair.state.phase is Phase.WAITING)
    second = Task(task.job)
    running = asyncio.create_task(second.run())
    await until(lambda: second.parts)
    for _ in range(10):
        second.report()
        await asyncio.sleep(0.1)
    assert cancelled == []
    scene.spark.running[task.job.number].cancel()
    second.channel.close()
    await running


async def test_strangers(make: Callable[[int], Scene]) -> None:
    """Whoever has not the key is not listened to, and disturbs nobody."""
    scene = make(1)
    scene.add(0)
    (task,) = await scene.tasks(1)
    stranger = await Channel.connect(task.job.owner, b"x" * 32)
    stranger.send(write(Hello(task.job.number, "evil")))
    with pytest.raises(ChannelLost):
        await stranger.receive()
    stranger.close()
    assert not task.over


def test_types() -> None:
    """What the worker's side needs of Spark is what `ResidentJobs` has."""
    from replicator.spark.jobs.resident import ResidentJobs

    jobs: SparkJobs = ResidentJobs(None)
    assert cast("Any", jobs)


async def test_queues_of_a_lost_executor_go_to_the_tasks_that_are_left(
    make: Callable[[int], Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it does not come back: Spark has a slot less then, and the job would wait for it for ever."""
    monkeypatch.setattr(under_test, "_REPLACED", 0.3)
    scene = make(2)
    there = [scene.add(i) for i in range(4)]
    lost, left = await scene.tasks(2)
    await until(lambda: [len(task.parts) for task in (lost, left)] == [2, 2])
    for task in (lost, left):
        task.report(*(task.state(key, 7) for key in task.parts))
    await until(lambda: lost.grants and left.grants)
    scene.spark.full, scene.spark.most = True, 1
    clock = asyncio.get_running_loop().time
    began = clock()
    lost.channel.close()
    await until(lambda: len(left.parts) == 4)
    assert clock() - began > GRANT * 0.8
    assert {left.parts[key].state.progress.position for key in lost.parts} == {7}
    assert left.parts.keys() == {pair.state.key for pair in there}
    await until(lambda: len(scene.spark.running) == 2 and scene.spark.running[lost.job.number].done())
    for pair in there:
        pair.drain()
    left.report(*(left.state(key, 7) for key in left.parts), ended=True)
    await asyncio.wait(scene.runs)


async def _granted_to_two(make: Callable[[int], Scene]) -> tuple[Scene, list[Task]]:
    """Four queues in two tasks, which have reported."""
    scene = make(2)
    for number in range(4):
        scene.add(number)
    tasks = await scene.tasks(2)
    for task in tasks:
        task.report()
    await until(lambda: all(task.grants for task in tasks))
    return scene, tasks


async def test_one_executor_of_two_comes_back(
    make: Callable[[int], Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late, when nobody looks any more: the queues of the other one go to its task."""
    monkeypatch.setattr(under_test, "_REPLACED", 0.2)
    scene, tasks = await _granted_to_two(make)
    scene.spark.full, scene.spark.most = True, 1
    for task in tasks:
        task.channel.close()
    await asyncio.sleep(0.6)
    back = Task(tasks[0].job)
    running = asyncio.create_task(back.run())
    await until(lambda: len(back.parts) == 4)
    back.channel.close()
    await running


async def test_queues_wait_for_executors_that_may_come_back(
    make: Callable[[int], Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where none is left, or Spark still has as many slots, each job keeps its queues."""
    monkeypatch.setattr(under_test, "_REPLACED", 0.1)
    scene, tasks = await _granted_to_two(make)
    scene.spark.most = 1
    for task in tasks:
        task.channel.close()
    again = await scene.tasks(2)
    assert sorted(len(task.parts) for task in again) == [2, 2]
    assert {task.job.number for task in again} == {task.job.number for task in tasks}
