"""Pairs run each for itself: one that fails, ends late or is replaced touches no other."""

from __future__ import annotations

import asyncio

from replicator.connector.running_pairs import RunningPairs
from replicator.routing.message_queue import MessageQueue
from replicator.routing.state import Phase, QueueState
from tests.support.worker import until


class _Pair:
    """Runs until it is drained; `stubborn` ones until they are cut off, `broken` ones fail at once."""

    def __init__(
        self, queue: MessageQueue, said: list[str], *, stubborn: bool = False, broken: bool = False
    ) -> None:
        self.state = QueueState(queue.topic, queue.queue, queue.queue, route="route")
        self.topic = queue.topic
        self.from_start = False
        self._said = said
        self._stubborn, self._broken = stubborn, broken
        self._drained = asyncio.Event()

    def drain(self) -> None:
        if not self._stubborn:
            self._drained.set()

    def follow(self, address: str) -> None:
        """It reads from nowhere."""

    def recheck(self, reason: str) -> None:
        """It has nothing to look at."""

    async def run(self) -> None:
        self._said.append(f"runs {self.topic}")
        if self._broken:
            raise ValueError("a bug")
        try:
            await self._drained.wait()
        finally:
            self._said.append(f"ended {self.topic}")


class _Scene:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.pairs = RunningPairs(
            "route",
            task_of=lambda queue: f"route/{queue.topic}",
            ready=self._ready,
            on_end=lambda state: self.said.append(f"forgot {state.topic}"),
            on_late=lambda: self.said.append("late"),
        )

    async def _ready(self, queue: MessageQueue) -> None:
        self.said.append(f"ready {queue.topic}")

    def pair(self, topic: str, *, stubborn: bool = False, broken: bool = False) -> tuple[MessageQueue, _Pair]:
        queue = MessageQueue(topic, "a", 0)
        return queue, _Pair(queue, self.said, stubborn=stubborn, broken=broken)

    async def started(
        self, group: asyncio.TaskGroup, topic: str, *, stubborn: bool = False
    ) -> tuple[MessageQueue, _Pair]:
        """A pair that runs."""
        queue, pair = self.pair(topic, stubborn=stubborn)
        self.pairs.start(queue, pair, group)
        await asyncio.sleep(0)
        return queue, pair


async def test_a_pair_runs_when_its_queue_is_ready_and_is_forgotten_when_drained() -> None:
    scene = _Scene()
    async with asyncio.TaskGroup() as group:
        queue, pair = await scene.started(group, "one")
        assert scene.said == ["ready one", "runs one"]
        assert queue in scene.pairs
        assert scene.pairs.of(["route/one", "route/two"]) == [queue]
        assert scene.pairs.phases() == {"route/one": {pair.state.phase}}
        assert await scene.pairs.end([queue], 10) == [pair.state]
    assert scene.said[2:] == ["ended one", "forgot one"]
    assert (len(scene.pairs), scene.pairs.phases(), scene.pairs.cut) == (0, {}, 0)


async def test_states_in_turn_are_those_of_the_pairs_that_run_then() -> None:
    """One that was replaced meanwhile says what is no longer so: that a queue has ended cleanly, for one."""
    scene = _Scene()
    async with asyncio.TaskGroup() as group:
        for number in range(70):
            await scene.started(group, f"{number}")
        seen = []
        async for states in scene.pairs.in_turn():
            seen += states
            if len(seen) == 64:
                (gone, _), (again, _) = [*scene.pairs][64:66]
                await scene.pairs.end([gone, again], 10)
                await scene.started(group, again.topic)
        assert [state.topic for state in seen] == [f"{number}" for number in range(70) if number not in (64, 65)]
        await scene.pairs.cancel()


async def test_a_bug_ends_its_own_pair() -> None:
    scene = _Scene()
    async with asyncio.TaskGroup() as group:
        broken, well = scene.pair("one", broken=True), scene.pair("two")
        for queue, pair in (broken, well):
            scene.pairs.start(queue, pair, group)
        await until(lambda: broken[1].state.phase is Phase.FAILED)
        assert (broken[1].state.phase, broken[1].state.reason) == (Phase.FAILED, "ValueError: a bug")
        assert [scene.pairs.runs(queue) for queue, _ in (broken, well)] == [False, True]
        assert "ended two" not in scene.said
        await scene.pairs.cancel()
    assert {"ended two", "forgot one", "forgot two"} <= {*scene.said}


async def test_one_that_does_not_drain_is_cut_off() -> None:
    """What is behind it is told first, so that nothing of it can still arrive."""
    scene = _Scene()
    async with asyncio.TaskGroup() as group:
        await scene.started(group, "one", stubborn=True)
        await scene.started(group, "two")
        await scene.pairs.end([queue for queue, _ in scene.pairs], 0.01)
    assert scene.said.index("ended two") < scene.said.index("late") < scene.said.index("ended one")
    assert scene.pairs.cut == 1


async def test_what_is_cancelled_while_it_drains_counts_as_cut_off() -> None:
    """The lease may be lost meanwhile: the worker must not say that it has drained."""
    scene = _Scene()
    async with asyncio.TaskGroup() as group:
        queue, _ = await scene.started(group, "one", stubborn=True)
        await scene.started(group, "two")
        draining = group.create_task(scene.pairs.end([queue], 10))
        await asyncio.sleep(0)
        await scene.pairs.cancel()
        await draining
    assert (scene.pairs.cut, len(scene.pairs)) == (1, 0)


async def test_one_that_takes_the_place_of_another_waits_for_its_end() -> None:
    scene = _Scene()
    async with asyncio.TaskGroup() as group:
        queue, _ = await scene.started(group, "one")
        _, second = scene.pair("one")
        scene.pairs.restart(queue, second, group)
        await until(lambda: scene.said.count("runs one") == 2)
        assert scene.said == ["ready one", "runs one", "ended one", "ready one", "runs one"]
        assert [pair is second for _, pair in scene.pairs] == [True]
        await scene.pairs.end([queue], 10)


async def test_one_that_was_replaced_while_it_drained_leaves_the_new_one() -> None:
    scene = _Scene()
    async with asyncio.TaskGroup() as group:
        queue, old = await scene.started(group, "one", stubborn=True)
        ending = group.create_task(scene.pairs.end([queue], 10))
        await asyncio.sleep(0)
        assert scene.pairs.is_ending(queue)
        scene.pairs.abandon(queue)
        _, new = scene.pair("one")
        scene.pairs.start(queue, new, group)
        assert await ending == [old.state]
        assert [pair is new for _, pair in scene.pairs] == [True]
        await scene.pairs.cancel()
