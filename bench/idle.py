"""Idle cost: what the replicator uses while it waits on many idle queues."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.broker import Broker
from bench.contender import QUEUES, Contender
from bench.files import made
from bench.process import ContenderFailed, Measured
from bench.scrape import Scrape, scrape
from bench.stage import SCENARIOS, staged

_START_SECONDS = 300.0
_QUIET_SECONDS = 15.0
_SCRAPES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """`cpu_share` is of one core; `scrape` is the slowest of twenty, each of which costs `scrape_cpu_seconds`."""

    queues: int
    cpu_share: float
    rss: int
    scrape: Scrape
    scrape_cpu_seconds: float


async def idle_costs(
    contender: Contender,
    *,
    queues: Sequence[int],
    seconds: float,
    directory: Path,
    say: Callable[[str], None],
) -> list[Idle]:
    """One run for each number of queues, each on new clusters."""
    found = []
    for count in queues:
        found.append(await _one(contender, count, seconds=seconds, directory=made(directory / f"idle-{count}")))
        say(f"idle with {count} queues: {found[-1].cpu_share:.1%} of a core, {found[-1].rss / 1e6:.0f} MB")
    return found


async def _one(contender: Contender, queues: int, *, seconds: float, directory: Path) -> Idle:
    topics = [f"idle-{number:05d}" for number in range(queues // QUEUES)]
    async with staged(SCENARIOS["loopback"], directory=directory) as stage:
        await stage.source.broker.create_all(topics, queues=QUEUES)
        job = stage.job("idle-.*", "idle-.*", messages=len(topics), size=0, directory=directory)
        process = Measured(
            await contender.command(job), log=directory / "output", environment=contender.environment(job)
        )
        try:
            # A topic is being copied once a message in its last queue arrives.
            for topic in topics:
                await stage.source.broker.send(topic, QUEUES - 1, topic.encode())
            await _copied(stage.target.broker, topics, process=process)
            await asyncio.sleep(_QUIET_SECONDS)
            begun, used = time.monotonic(), process.cpu()
            await asyncio.sleep(seconds)
            share = (process.cpu() - used) / (time.monotonic() - begun)
            await scrape(process)  # the first one loads the HTTP application
            before = process.cpu()
            scrapes = [found for _ in range(_SCRAPES) if (found := await scrape(process)) is not None]
            cost = (process.cpu() - before) / _SCRAPES
            slowest = max(scrapes, key=lambda each: each.seconds)
            return Idle(
                queues=queues, cpu_share=share, rss=process.memory(), scrape=slowest, scrape_cpu_seconds=cost
            )
        finally:
            await process.stopped()


async def _copied(target: Broker, topics: Sequence[str], *, process: Measured) -> None:
    deadline = time.monotonic() + _START_SECONDS
    for topic in topics:
        while not sum(await target.heads(topic, queues=QUEUES)):
            if time.monotonic() > deadline or not process.running:
                raise ContenderFailed(f"{topic} was not copied; the output:\n{process.output()}")
            await asyncio.sleep(0.5)
