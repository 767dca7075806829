"""A group and its mirror in virtual time: a stop decided without the source holds, and no group is split."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from replicator.observe.logging import log_repeats
from tests.support.mirror_sim import Side, TwoClusters, patch_clocks
from tests.support.virtual_time import VirtualLoop

#: Seeds here are this part of those that groups alone are simulated with: each takes ten times as long.
_PART = 3


@pytest.fixture
def seeds(simulations: int) -> range:
    return range(max(1, simulations // _PART))


Play = Callable[[TwoClusters], Awaitable[None]]


@pytest.fixture
def simulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeds: range) -> Iterator[Callable[..., None]]:
    """Plays each seed's world; whatever it must never do is named with its seed."""
    patch_clocks(monkeypatch)

    async def played(seed: int, play: Play, workers: int) -> None:
        world = TwoClusters(seed, tmp_path / str(seed), workers=workers)
        try:
            await play(world)
        finally:
            for process in world.processes.values():
                process.kill()
            await asyncio.sleep(1)
        assert not world.violations, (seed, world.violations[:3])
        assert not world.errors, (seed, world.errors[:3])

    def run(play: Play, *, workers: int = 3) -> None:
        for seed in seeds:
            with asyncio.Runner(loop_factory=VirtualLoop) as runner:
                try:
                    runner.run(played(seed, play, workers))
                except AssertionError as error:
                    raise AssertionError(f"seed {seed}") from error

    yield run
    log_repeats(now=True)  # or it would be told when nobody captures it any more


async def _all_sent(world: TwoClusters) -> None:
    await world.wait_for(lambda: world.senders == len(world.tasks), 90, "all tasks are sent")


async def _chaos(world: TwoClusters, seconds: float) -> None:
    end = world.loop.time() + seconds
    while world.loop.time() < end:
        await asyncio.sleep(world.random.uniform(0.2, 4))
        world.trouble()
        world.look()


async def _peace(world: TwoClusters) -> None:
    """What was cut off is not any more, and whoever was killed is back."""
    await asyncio.sleep(16)
    for process in world.processes.values():
        process.cut.clear()


def test_never_two_senders_whatever_happens(simulate: Callable[..., None]) -> None:
    """Workers killed, wiped and cut off, either cluster away for a while; in the end all tasks are sent again."""

    async def play(world: TwoClusters) -> None:
        await _all_sent(world)
        for side in world.random.sample(["source", "target", "source"], 3):
            cluster = world.clusters["source" if side == "source" else "target"]
            cluster.away = True
            await _chaos(world, world.random.uniform(1, 40))
            cluster.away = False
            await _chaos(world, 20)
        await _peace(world)
        await _all_sent(world)

    simulate(play)


def test_a_stop_without_the_source_holds_when_it_is_back(simulate: Callable[..., None]) -> None:
    """Decided at a worker that sees only the target, or that has lost its lease; until somebody resumes it."""

    async def play(world: TwoClusters) -> None:
        await _all_sent(world)
        await asyncio.sleep(3)
        source = world.clusters["source"]
        source.away = True
        await _chaos(world, world.random.uniform(8, 40))
        await _peace(world)
        assert world.senders == 0
        name = world.random.choice(sorted(world.processes))
        await world.wait_for(lambda: world.processes[name].hears, 60, "the mirror is heard")
        await world.wait_for(lambda: world.processes[name].state == "RUNNING", 60, "it knows the route")
        assert await world.decide(name, "STOPPED")
        await asyncio.sleep(world.random.uniform(2, 10))
        world.stopped_at = world.loop.time()
        for process in [*world.processes.values()]:
            if world.random.random() < 0.5:
                world.restart(process, wiped=world.random.random() < 0.5, after=world.random.uniform(0, 20))
        await asyncio.sleep(world.random.uniform(0, 10))
        source.away = False
        await asyncio.sleep(60)
        assert world.senders == 0
        world.stopped_at = None
        assert await world.decide(name, "RUNNING")
        await _all_sent(world)

    simulate(play)


@pytest.mark.parametrize(("first", "second"), [("source", "target"), ("target", "source")])
def test_a_group_is_never_split_over_two_logs(simulate: Callable[..., None], first: Side, second: Side) -> None:
    """Workers that coordinate elsewhere come, at any time: in the end those of one cluster are left, or none."""

    async def play(world: TwoClusters) -> None:
        world.add("v0", first)
        world.add("v1", first)
        if world.random.random() < 0.7:
            await asyncio.sleep(world.random.uniform(0, 15))
        world.add("x0", second)
        world.add("x1", second)
        await asyncio.sleep(60)
        ended = {name[0] for name, process in world.processes.items() if process.ended_by}
        going = {name[0] for name, process in world.processes.items() if process.alive}
        assert ended, "both stay"
        assert len(going) <= 1, (ended, going)

    simulate(play, workers=0)
