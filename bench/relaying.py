"""Throughput: contenders take turns to copy the same full topic, each time into a new one."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from bench.broker import Span
from bench.contender import QUEUES, Contender, Fill, Job, OnSpark, Replicator, Scraped, Spark
from bench.files import made
from bench.memory import touch
from bench.process import ContenderFailed, Cost, Measured
from bench.scrape import scraped
from bench.stage import Scenario, Stage, staged

_POLL_SECONDS = 0.2
_SETTLE_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One contender's turn. `seconds` is from its start until the target stored the last message,
    `moving` from the first stored message to the last one.
    """

    scenario: str
    contender: str
    size: int
    messages: int
    seconds: float
    moving: float
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much, how often, and how long a round may take."""

    messages: int
    sizes: Sequence[int]
    rounds: int
    limit: float


async def relay_rounds(
    scenario: Scenario,
    contenders: Sequence[Contender],
    *,
    scale: Scale,
    directory: Path,
    say: Callable[[str], None],
) -> list[Round]:
    """All rounds of one scenario, on clusters of its own."""
    found: list[Round] = []
    async with staged(scenario, directory=directory / scenario.name) as stage:
        for size in scale.sizes:
            topic = f"bench-{size}"
            async with stage.reachable(delayed=False):
                await fill(stage, topic, messages=scale.messages, size=size, directory=directory)
                await warm_up(stage, contenders, scale=scale, size=size, directory=directory)
            async with stage.reachable(delayed=True):
                for turn in range(scale.rounds):
                    # The first contender has other caches than the last one.
                    shift = turn % len(contenders)
                    for contender in (*contenders[shift:], *contenders[:shift]):
                        job = stage.job(
                            topic,
                            f"{topic}-{contender.name}-{turn + 1}",
                            messages=scale.messages,
                            size=size,
                            directory=directory / f"{scenario.name}-{size}-{contender.name}-{turn + 1}",
                        )
                        done = await one_round(stage, contender, job, scenario=scenario.name, limit=scale.limit)
                        say(_line(done))
                        found.append(done)
    return found


async def one_round(stage: Stage, contender: Contender, job: Job, *, scenario: str, limit: float) -> Round:
    """One turn; the target topic is deleted afterwards."""
    await asyncio.to_thread(touch)
    process, cost, span = await moved(stage, contender, job, queues=QUEUES, limit=limit)
    await stage.target.broker.delete(job.target_topic)
    return Round(
        scenario=scenario,
        contender=contender.name,
        size=job.size,
        messages=job.messages,
        seconds=span.last - process.started,
        moving=span.last - span.first,
        cost=cost,
    )


async def moved(
    stage: Stage, contender: Contender, job: Job, *, queues: int, limit: float
) -> tuple[Measured, Cost, Span]:
    """Start, wait until the target has all messages, end, and read the store times."""
    target = stage.target.broker
    if not contender.makes_topic:
        await target.create(job.target_topic, queues=queues)
        await _routed()
    process = Measured(
        await contender.command(job),
        log=job.directory / "output",
        environment=contender.environment(job),
        helpers=contender.master.helpers if isinstance(contender, Spark | OnSpark) else (),
    )
    asked = scraped(process, often=isinstance(contender, Scraped))
    async with asked if isinstance(contender, Replicator) else nullcontext():
        await _arrived(stage, contender, job, process, queues=queues, limit=limit)
    cost = await (process.finished(seconds=limit) if contender.ends else process.stopped())
    if cost.exit_code != 0:
        raise ContenderFailed(f"{contender.name} ended with {cost.exit_code}; its output:\n{process.output()}")
    span = await target.span(job.target_topic, queues=queues)
    if span.messages != job.messages:
        raise ContenderFailed(f"{contender.name} stored {span.messages} messages instead of {job.messages}")
    return process, cost, span


async def _arrived(
    stage: Stage, contender: Contender, job: Job, process: Measured, *, queues: int, limit: float
) -> None:
    target = stage.target.broker
    deadline = time.monotonic() + limit
    while sum(await target.heads(job.target_topic, queues=queues)) < job.messages:
        if time.monotonic() > deadline or (not process.running and not contender.ends):
            await process.stopped()
            raise ContenderFailed(f"{contender.name} did not move all messages; its output:\n{process.output()}")
        if not process.running:
            # It ended by itself: the last messages may not be visible in the queues yet.
            await asyncio.sleep(_SETTLE_SECONDS)
            stored = sum(await target.heads(job.target_topic, queues=queues))
            if stored < job.messages:
                raise ContenderFailed(
                    f"{contender.name} ended after {stored} of {job.messages} messages:\n{process.output()}"
                )
        await asyncio.sleep(_POLL_SECONDS)


async def fill(
    stage: Stage, topic: str, *, messages: int, size: int, directory: Path, queues: int = QUEUES
) -> None:
    """Fills the source topic."""
    await stage.source.broker.create(topic, queues=queues)
    await _routed()
    await _fill(stage.source.namesrv, topic, messages=messages, size=size, directory=directory)


async def warm_up(
    stage: Stage, contenders: Sequence[Contender], *, scale: Scale, size: int, directory: Path
) -> None:
    """Each contender copies a smaller topic once, so that both brokers' JVMs have compiled their code."""
    topic, messages = f"warm-up-{size}", scale.messages // 5
    await fill(stage, topic, messages=messages, size=size, directory=directory)
    for contender in contenders:
        target_topic = f"{topic}-{contender.name}"
        job = stage.job(topic, target_topic, messages=messages, size=size, directory=directory / target_topic)
        await moved(stage, contender, job, queues=QUEUES, limit=scale.limit)
        await stage.target.broker.delete(job.target_topic)
    await stage.source.broker.delete(topic)


async def _fill(namesrv: str, topic: str, *, messages: int, size: int, directory: Path) -> None:
    filler = Fill()
    job = Job(
        source=namesrv,
        target=namesrv,
        topic=topic,
        target_topic=topic,
        messages=messages,
        size=size,
        queues=QUEUES,
        brokers=("", ""),
        directory=made(directory / f"fill-{topic}-{os.urandom(3).hex()}"),
    )
    process = Measured(await filler.command(job), log=job.directory / "output", environment=filler.environment(job))
    cost = await process.finished(seconds=600)
    if cost.exit_code != 0:
        raise ContenderFailed(f"{topic} could not be filled:\n{process.output()}")


async def _routed() -> None:
    """Waits: brokers register a new topic with the name servers immediately, but after they answer."""
    await asyncio.sleep(_SETTLE_SECONDS)


def _line(done: Round) -> str:
    rate = done.messages / done.seconds
    return (
        f"{done.scenario} {done.size} B {done.contender}: {done.seconds:.2f} s ({rate:,.0f}/s), moving"
        f" {done.moving:.2f} s, CPU {done.cost.cpu:.2f} s, peak {done.cost.peak_rss / 1e6:.0f} MB"
    )
