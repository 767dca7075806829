"""Live latency: a steady low rate at the source, and how much later the target stores each message."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.contender import QUEUES, Contender
from bench.figures import percentile
from bench.process import ContenderFailed, Cost, Measured
from bench.stage import SCENARIOS, Stage, staged

RATE = 200
_WARM_SECONDS = 10.0
_DRAIN_SECONDS = 30.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Milliseconds from the source's store timestamp to the target's; CPU as a share of one core."""

    contender: str
    messages: int
    p50: float
    p99: float
    highest: float
    cpu_share: float


async def latencies(contenders: Sequence[Contender], *, seconds: float, directory: Path) -> list[Latency]:
    """One run for each contender, on the same near clusters."""
    async with staged(SCENARIOS["loopback"], directory=directory / "latency") as stage:
        return [
            await _one(stage, contender, seconds=seconds, directory=directory / contender.name)
            for contender in contenders
        ]


async def _one(stage: Stage, contender: Contender, *, seconds: float, directory: Path) -> Latency:
    source, target = stage.source.broker, stage.target.broker
    topic = f"live-{contender.name}"
    warm, total = int(_WARM_SECONDS * RATE), int((_WARM_SECONDS + seconds) * RATE)
    job = stage.job(topic, f"{topic}-copy", messages=total, size=1024, directory=directory)
    await source.create(topic, queues=QUEUES)
    if not contender.makes_topic:
        await target.create(job.target_topic, queues=QUEUES)
    await asyncio.sleep(1)
    process = Measured(
        await contender.command(job), log=directory / "output", environment=contender.environment(job)
    )
    # The first messages, sent while the contender may still be starting, are not counted.
    await _trickle(stage, topic, range(warm))
    begun, used = time.monotonic(), process.cpu()
    await _trickle(stage, topic, range(warm, total))
    share = (process.cpu() - used) / (time.monotonic() - begun)
    deadline = time.monotonic() + _DRAIN_SECONDS
    while sum(await target.heads(job.target_topic, queues=QUEUES)) < total:
        if time.monotonic() > deadline:
            await process.stopped()
            raise ContenderFailed(f"{contender.name} did not keep up; its output:\n{process.output()}")
        await asyncio.sleep(_POLL_SECONDS)
    await _ended(process, ends=contender.ends)
    sent = {m.body: m.store_timestamp for m in await source.read(topic, queues=QUEUES)}
    late = [
        float(message.store_timestamp - sent[message.body])
        for message in await target.read(job.target_topic, queues=QUEUES)
        if _number(message.body) >= warm
    ]
    return Latency(
        contender=contender.name,
        messages=len(late),
        p50=percentile(late, 0.5),
        p99=percentile(late, 0.99),
        highest=max(late),
        cpu_share=share,
    )


async def _ended(process: Measured, *, ends: bool) -> Cost:
    return await (process.finished(seconds=_DRAIN_SECONDS) if ends else process.stopped())


async def _trickle(stage: Stage, topic: str, numbers: range) -> None:
    begun = time.monotonic()
    for count, number in enumerate(numbers):
        await asyncio.sleep(max(0.0, begun + count / RATE - time.monotonic()))
        await stage.source.broker.send(topic, number % QUEUES, f"{number:010d}".encode().ljust(1024, b"."))


def _number(body: bytes) -> int:
    return int(body[4:14])  # the number follows the length
