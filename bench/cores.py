"""More than one core: workers of one machine (`--workers`), and Spark, before brokers that are not the limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.contender import Replicator
from bench.files import made
from bench.null_broker import NullBroker, Stored, compiled
from bench.process import ContenderFailed, Measured
from bench.stage import Scenario, Stage, staged

QUEUES = 16
SIZE = 1024

_SCENARIO = Scenario(name="cores", title="Before null brokers", fronted=True)
_START_SECONDS = 60.0
_LIMIT_SECONDS = 120.0
_POLL_SECONDS = 0.1
#: Seconds in which queues have to stay where they are before messages come.
_QUIET_SECONDS = 3.0
#: What is measured lies between these parts of all messages.
_FROM, _TO = 0.1, 0.9


@dataclass(frozen=True, slots=True)
class Layout:
    """What copies, on `cores` that it shares with the brokers, over as many connections to the source."""

    name: str
    cores: int
    flags: Sequence[str]


LAYOUTS = (
    Layout("1 worker", 1, ("--workers", "1")),
    Layout("2 workers", 2, ("--workers", "2")),
    Layout("1 worker, engine=spark on local[2]", 2, ("--engine", "spark", "--spark-master", "local[2,4]")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores:
    """One turn: messages a second, and CPU microseconds a message of what copies and of both null brokers."""

    layout: Layout
    rate: float
    cpu: float
    brokers_cpu: float


async def cores(
    program: Replicator, *, messages: int, rounds: int, directory: Path, say: Callable[[str], None]
) -> list[Cores]:
    """Layouts take turns, each time with a new topic."""
    found: list[Cores] = []
    null = await asyncio.to_thread(compiled, made(directory))
    async with staged(_SCENARIO, directory=directory / "clusters") as stage:
        for turn in range(rounds):
            for number, layout in enumerate(LAYOUTS):
                place = made(directory / f"null-{number}-{turn + 1}")
                found.append(
                    await _one(stage, program, null, layout=layout, each=messages // QUEUES, directory=place)
                )
                say(f"cores: {layout.name}, {found[-1].rate:,.0f}/s, CPU {found[-1].cpu:.2f} µs a message")
    return found


async def _one(
    stage: Stage, program: Replicator, null: Path, *, layout: Layout, each: int, directory: Path
) -> Cores:
    """One turn, with a topic of the directory's name."""
    topic = directory.name
    await stage.source.broker.create(topic, queues=QUEUES)
    on = ["taskset", "--cpu-list", f"0-{layout.cores - 1}"]
    async with AsyncExitStack() as stack:
        brokers = []
        for name, side in (("source", stage.source), ("target", stage.target)):
            made_of = {"prefix": topic, "each": each, "size": SIZE, "log": directory / name, "on": on}
            brokers.append(NullBroker(null, name, side.fronts, **made_of))  # type: ignore[arg-type]
            stack.push_async_callback(brokers[-1].process.stopped)
            await brokers[-1].ready()
        source, target = brokers
        job = stage.job(topic, topic, messages=each * QUEUES, size=SIZE, queues=QUEUES, directory=directory)
        # Nothing can be read back of what was not stored; the queues of delayed messages would be tasks, too.
        flags = ["--task-granularity", "queue", "--audit", "off", "--sync", "topics", *layout.flags]
        replicator = Measured(
            [*on, *await program.command(job), *flags],
            log=directory / "output",
            environment=program.environment(job),
        )
        stack.push_async_callback(replicator.stopped)
        await _settled(source, replicator, layout)
        source.open()
        begin, end = await _moved(target, replicator, each * QUEUES)
    moved = end.messages - begin.messages

    def cost(processes: Sequence[Measured]) -> float:
        used = sum(each.cpu_by(end.moment) - each.cpu_by(begin.moment) for each in processes)
        return used / moved * 1e6

    return Cores(
        layout=layout,
        rate=moved / (end.moment - begin.moment),
        cpu=cost([replicator]),
        brokers_cpu=cost([broker.process for broker in brokers]),
    )


async def _settled(source: NullBroker, replicator: Measured, layout: Layout) -> None:
    """Every worker or task waits for its part of the queues."""
    deadline, since = time.monotonic() + _START_SECONDS, time.monotonic()
    while time.monotonic() - since < _QUIET_SECONDS:
        if source.held != (QUEUES, layout.cores):
            since = time.monotonic()
        if not replicator.running or since > deadline:
            raise ContenderFailed(f"{layout.name} did not begin ({source.held}):\n{replicator.output()}")
        await asyncio.sleep(_POLL_SECONDS)


async def _moved(target: NullBroker, replicator: Measured, total: int) -> tuple[Stored, Stored]:
    """What had come when the measured part began, and when it ended."""
    deadline = time.monotonic() + _LIMIT_SECONDS
    while not (found := target.stored) or found[-1].messages < total:
        if not replicator.running or time.monotonic() > deadline:
            raise ContenderFailed(f"{found[-1:]} of {total} came:\n{replicator.output()}")
        await asyncio.sleep(_POLL_SECONDS)
    begin = next(each for each in found if each.messages >= _FROM * total)
    return begin, next(each for each in found if each.messages >= _TO * total)
