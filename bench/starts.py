"""Starts: from the start of a process until the target has stored its first copies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.broker import AT_ONCE, Broker
from bench.contender import QUEUES, Replicator
from bench.files import made
from bench.process import ContenderFailed, Measured
from bench.stage import SCENARIOS, Scenario, Stage, staged
from replicator.aio.bounded import bounded

#: Topics with many queues, and queues of each.
TOPICS, TOPIC_QUEUES = 100, 100
_LIMIT_SECONDS = 120.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """`seconds` that one start took; of a command, until it has ended."""

    name: str
    seconds: float


async def start_times(
    program: Replicator, *, rounds: int, directory: Path, say: Callable[[str], None]
) -> list[Start]:
    """Rounds of each start. A route is always new: its target topics are made, and nothing of it is stored."""
    found = [await _help(program, directory=directory / f"help-{turn}") for turn in range(rounds)]
    for scenario in SCENARIOS.values():
        name = f"first copied message, {scenario.title[0].lower()}{scenario.title[1:]}"
        found += await _routes(program, scenario, name, rounds=rounds, directory=directory / scenario.name)
    name = f"first copied message in each of {TOPICS * TOPIC_QUEUES:,} queues, both clusters near"
    near = SCENARIOS["loopback"]
    found += await _routes(
        program, near, name, rounds=rounds, directory=directory / "many", topics=TOPICS, queues=TOPIC_QUEUES
    )
    for each in found:
        say(f"{each.name}: {each.seconds:.2f} s")
    return found


async def _help(program: Replicator, *, directory: Path) -> Start:
    command = [*program.program, "--help"]
    process = Measured(command, log=made(directory) / "output", environment={"HOME": str(directory)})
    cost = await process.finished(seconds=_LIMIT_SECONDS)
    if cost.exit_code != 0:
        raise ContenderFailed(f"--help ended with {cost.exit_code}:\n{process.output()}")
    return Start(name="`replicator --help`", seconds=time.time() - process.started)


async def _routes(
    program: Replicator,
    scenario: Scenario,
    name: str,
    *,
    rounds: int,
    directory: Path,
    topics: int = 1,
    queues: int = QUEUES,
) -> list[Start]:
    """On clusters of their own, after one that is not counted: brokers that have just started are slower."""
    names = [f"start-{number:03d}" for number in range(topics)]
    async with staged(scenario, directory=made(directory)) as stage, stage.reachable(delayed=True):
        await _filled(stage.source.broker, names, queues=queues)
        times = [
            await _started(stage, program, names, queues=queues, number=turn, directory=directory / f"{turn}")
            for turn in range(rounds + 1)
        ]
    return [Start(name=name, seconds=seconds) for seconds in times[1:]]


async def _started(
    stage: Stage, program: Replicator, topics: list[str], *, queues: int, number: int, directory: Path
) -> float:
    """Seconds until the target has stored the first message; of each queue, where there are several topics."""
    job = stage.job("start-.*", f"start-.*-{number}", messages=0, size=0, queues=queues, directory=directory)
    process = Measured(await program.command(job), log=directory / "output", environment=program.environment(job))
    target, copies = stage.target.broker, [f"{topic}-{number}" for topic in topics]
    try:
        deadline = time.monotonic() + _LIMIT_SECONDS
        for copy in copies:
            while min(await target.heads(copy, queues=queues)) < 1:
                if time.monotonic() > deadline or not process.running:
                    raise ContenderFailed(f"{copy} was not copied; the output:\n{process.output()}")
                await asyncio.sleep(_POLL_SECONDS)
        spans = [await target.span(copy, queues=queues) for copy in copies]
    finally:
        await process.stopped()
    for copy in copies:
        await target.delete(copy)
    stored = max(span.last for span in spans) if len(topics) > 1 else spans[0].first
    return stored - process.started


async def _filled(source: Broker, topics: list[str], *, queues: int) -> None:
    """One message in each queue."""
    await source.create_all(topics, queues=queues)

    async def fill(topic: str) -> None:
        for queue in range(queues):
            await source.send(topic, queue, topic.encode())

    await bounded(fill, topics, at_once=AT_ONCE)
