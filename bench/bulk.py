"""Whole topics: Spark's engine and commands beside the live path and the relay in Java, in one run."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.contender import Contender, Job, OnSpark, Spark
from bench.masters import masters
from bench.memory import touch
from bench.process import ContenderFailed, Measured
from bench.relaying import Scale, fill, moved, warm_up
from bench.stage import SCENARIOS, Stage, staged

__all__ = ["BULK_QUEUES", "Bulk", "bulk_rounds"]

BULK_QUEUES = 16
_SIZE = 1024

#: The source's broker treats all its messages as being on disk, where a pull returns 8 instead of 32
#: (maxTransferCountOnMessageInDisk); in fact they are in this machine's memory.
_ON_DISK = {"accessMessageInMemoryMaxRatio": "0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """One turn: `seconds` and CPU seconds from the first message on, and those of the start before it.

    `history`: the source treated the messages as being on disk.
    """

    history: bool
    name: str
    messages: int
    size: int
    seconds: float
    cpu: float
    start: float
    start_cpu: float

    @property
    def rate(self) -> float:
        return self.messages / max(self.seconds, 0.001)


async def bulk_rounds(
    movers: Sequence[Contender],
    spark: Sequence[str],
    *,
    history: bool,
    scale: Scale,
    directory: Path,
    say: Callable[[str], None],
) -> list[Bulk]:
    """All rounds, on clusters of their own.

    Args:
        spark: Spark's masters; each runs a backfill and a route, the first also verify, export and import.
        history: the source is to treat its messages as history on disk.
    """
    found: list[Bulk] = []
    topic = f"bulk-{_SIZE}"
    async with (
        staged(SCENARIOS["loopback"], directory=directory, source=_ON_DISK if history else {}) as stage,
        masters(spark, directory=directory / "spark") as places,
    ):
        await fill(stage, topic, messages=scale.messages, size=_SIZE, directory=directory, queues=BULK_QUEUES)
        await warm_up(stage, movers, scale=scale, size=_SIZE, directory=directory)
        backfills = [Spark("backfill", master) for master in places]
        everybody: list[Contender] = [*movers, *(OnSpark(master) for master in places), *backfills]
        for turn in range(scale.rounds):
            shift = turn % len(everybody)
            for contender in (*everybody[shift:], *everybody[:shift]):
                place = f"{turn + 1}-{everybody.index(contender)}"
                job = stage.job(
                    topic,
                    f"{topic}-{place}",
                    messages=scale.messages,
                    size=_SIZE,
                    directory=directory / place,
                )
                done = [await _moved(stage, contender, job, history=history, limit=scale.limit)]
                if contender is backfills[0]:
                    readers = [Spark(command, places[0]) for command in ("verify", "export")]
                    done += [await _read(reader, job, done[0], limit=scale.limit) for reader in readers]
                    await stage.target.broker.delete(job.target_topic)
                    importing = Spark("import", places[0])
                    done.append(await _moved(stage, importing, job, history=history, limit=scale.limit))
                await stage.target.broker.delete(job.target_topic)
                for each in done:
                    say(f"bulk {each.name}: {each.seconds:.2f} s ({each.rate:,.0f}/s), CPU {each.cpu:.2f} s")
                found += done
    return found


async def _moved(stage: Stage, contender: Contender, job: Job, *, history: bool, limit: float) -> Bulk:
    await asyncio.to_thread(touch)
    process, _, span = await moved(stage, contender, job, queues=BULK_QUEUES, limit=limit)
    start_cpu = process.cpu_by(span.first)
    return Bulk(
        history=history,
        name=contender.name,
        messages=job.messages,
        size=job.size,
        seconds=span.last - span.first,
        cpu=process.cpu_by(time.time()) - start_cpu,
        start=span.first - process.started,
        start_cpu=start_cpu,
    )


async def _read(contender: Spark, job: Job, backfill: Bulk, *, limit: float) -> Bulk:
    """A command that stores nothing: the time of its tasks, and its CPU without the start of `backfill`."""
    log = job.directory / "output"
    process = Measured(
        await contender.command(job),
        log=log,
        environment=contender.environment(job),
        helpers=contender.master.helpers,
    )
    cost = await process.finished(seconds=limit)
    now = time.time()
    if cost.exit_code != 0:
        raise ContenderFailed(f"{contender.name} ended with {cost.exit_code}; its output:\n{process.output()}")
    text = log.read_text(encoding="utf-8")
    queues = json.JSONDecoder().raw_decode(text, text.index("{\n"))[0]["queues"]
    return Bulk(
        history=backfill.history,
        name=contender.name,
        messages=job.messages,
        size=job.size,
        seconds=sum(queue["seconds"] for queue in queues) / contender.master.slots,
        cpu=process.cpu_by(now) - backfill.start_cpu,
        start=backfill.start,
        start_cpu=backfill.start_cpu,
    )
