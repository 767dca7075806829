"""Thin traffic: a steady rate over many queues, so that most answers to pulls hold one message."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.contender import Contender, Job
from bench.feeder import DIGITS
from bench.figures import percentile
from bench.files import made
from bench.process import ContenderFailed, Measured
from bench.stage import SCENARIOS, Stage, staged

SIZE = 512
_START_SECONDS = 120.0
_DRAIN_SECONDS = 30.0
_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is offered: messages a second over a topic's queues, for `seconds` after as many to warm up."""

    queues: int
    rate: int
    seconds: float
    warm_seconds: float

    @property
    def warm(self) -> int:
        """Messages that are not counted."""
        return int(self.rate * self.warm_seconds)

    @property
    def total(self) -> int:
        """All messages but the one that shows that the contender has started."""
        return self.warm + int(self.rate * self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thin:
    """One contender's turn: milliseconds from store time to store time, and CPU microseconds a message."""

    contender: str
    queues: int
    rate: int
    p50: float
    p99: float
    cpu: float
    rss: int


async def thin_rounds(
    contenders: Sequence[Contender],
    loads: Sequence[Load],
    *,
    rounds: int,
    directory: Path,
    say: Callable[[str], None],
    found: list[Thin],
) -> None:
    """Contenders take turns at each load, on the same clusters; what is measured is added to `found` at once."""
    async with staged(SCENARIOS["loopback"], directory=made(directory / "thin")) as stage:
        for load in loads:
            for turn in range(rounds):
                shift = turn % len(contenders)
                for contender in (*contenders[shift:], *contenders[:shift]):
                    name = f"thin-{load.queues}-{load.rate}-{contender.name}-{turn + 1}"
                    found.append(await _one(stage, contender, load, topic=name, directory=directory / name))
                    say(_line(found[-1]))


async def _one(stage: Stage, contender: Contender, load: Load, *, topic: str, directory: Path) -> Thin:
    source, target = stage.source.broker, stage.target.broker
    job = stage.job(topic, f"{topic}-copy", messages=load.total, size=SIZE, queues=load.queues, directory=directory)
    await source.create(topic, queues=load.queues)
    if not contender.makes_topic:
        await target.create(job.target_topic, queues=load.queues)
    await asyncio.sleep(1)
    process = Measured(
        await contender.command(job), log=directory / "output", environment=contender.environment(job)
    )
    try:
        # One that starts while messages come would be measured in what it has to make up for.
        await source.send(topic, load.queues - 1, b"0" * DIGITS)
        await _arrived(stage, process, job, 1, seconds=_START_SECONDS)
        await _fed(stage, topic, load, range(load.warm))
        used, before = process.cpu(), sum(await source.heads(topic, queues=load.queues))
        await _fed(stage, topic, load, range(load.warm, load.total))
        used, memory = process.cpu() - used, process.memory()
        # Nobody answers the producer: what a broker refuses because it is busy is not sent again.
        taken = sum(await source.heads(topic, queues=load.queues))
        await _arrived(stage, process, job, taken, seconds=_DRAIN_SECONDS)
    finally:
        await process.stopped()
    late = await _late(stage, topic, job.target_topic, load)
    for broker, name in ((source, topic), (target, job.target_topic)):
        await broker.delete(name)
    return Thin(
        contender=contender.name,
        queues=load.queues,
        rate=load.rate,
        p50=percentile(late, 0.5),
        p99=percentile(late, 0.99),
        cpu=used / (taken - before) * 1e6,
        rss=memory,
    )


async def _fed(stage: Stage, topic: str, load: Load, numbers: range) -> None:
    command = [sys.executable, "-m", "bench.feeder", "--address", stage.source.broker.address, "--topic", topic]
    command += ["--queues", str(load.queues), "--rate", str(load.rate), "--size", str(SIZE)]
    command += ["--first", str(numbers.start), "--messages", str(len(numbers))]
    process = await asyncio.create_subprocess_exec(*command, cwd=Path(__file__).parent.parent)
    if await process.wait():
        raise ContenderFailed(f"the producer ended with {process.returncode}")


async def _arrived(stage: Stage, process: Measured, job: Job, count: int, *, seconds: float) -> None:
    topic, queues = job.topic, job.queues
    deadline = time.monotonic() + seconds
    while (stored := sum(await stage.target.broker.heads(job.target_topic, queues=queues))) < count:
        if time.monotonic() > deadline or not process.running:
            raise ContenderFailed(f"{stored} of {count} messages of {topic} came; the output:\n{process.output()}")
        await asyncio.sleep(_POLL_SECONDS)


async def _late(stage: Stage, topic: str, copy: str, load: Load) -> list[float]:
    """Of each message that counts, milliseconds from the source's store time to the target's."""
    sent = {
        number: message.store_timestamp
        for message in await stage.source.broker.read(topic, queues=load.queues)
        if (number := _number(message.body)) >= load.warm
    }
    return [
        float(message.store_timestamp - sent[number])
        for message in await stage.target.broker.read(copy, queues=load.queues)
        if (number := _number(message.body)) >= load.warm
    ]


def _number(body: bytes) -> int:
    return int(body[4 : 4 + DIGITS])  # it follows the length


def _line(found: Thin) -> str:
    return (
        f"thin, {found.queues} queues, {found.rate}/s, {found.contender}: {found.cpu:.0f} µs of CPU a message,"
        f" p50 {found.p50:.0f} ms, p99 {found.p99:.0f} ms, {found.rss / 1e6:.0f} MB"
    )
