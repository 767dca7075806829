"""A group at size: how long a start, a takeover and a rebalance take with many queues, and what the group costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from bench.contender import Job, Replicator
from bench.files import made
from bench.process import ContenderFailed, Measured
from bench.scrape import scrape
from bench.stage import SCENARIOS, Stage, staged

WORKERS = 3
TOPIC_QUEUES = 100
_LIMIT_SECONDS = 180.0
_POLL_SECONDS = 0.25
_QUIET_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Seconds until all queues are copied again after each event; what one worker costs while nothing comes.

    `control_rate` is what the group writes to the source's system topics, in bytes a second.
    """

    queues: int
    start: float
    takeover: float
    rebalance: float
    cpu_share: float
    rss: int
    control_rate: float
    scrape_seconds: float


async def group_costs(
    program: Replicator,
    *,
    queues: Sequence[int],
    seconds: float,
    rounds: int,
    directory: Path,
    say: Callable[[str], None],
) -> list[Group]:
    """Rounds for each number of queues, each on new clusters."""
    found = []
    for turn, count in product(range(rounds), queues):
        place = made(directory / f"group-{count}-{turn}")
        async with staged(SCENARIOS["loopback"], directory=place) as stage:
            scene = _Scene(stage, program, count, place)
            try:
                found.append(await scene.play(seconds))
            finally:
                await scene.end()
        say(_line(found[-1]))
    return found


class _Scene:
    """Workers of one group, and the topics that they copy."""

    def __init__(self, stage: Stage, program: Replicator, queues: int, directory: Path) -> None:
        self._source, self._target = stage.source.broker, stage.target.broker
        self._program = program
        self._topics = [f"group-{number:04d}" for number in range(queues // TOPIC_QUEUES)]
        self._queues = queues
        self._job: Job = stage.job("group-.*", "group-.*", messages=0, size=0, directory=directory)
        self._workers: dict[int, Measured] = {}
        self._sent = 0

    async def play(self, seconds: float) -> Group:
        await self._source.create_all(self._topics, queues=TOPIC_QUEUES)
        start = await self._took(self._begin(range(WORKERS)))
        cpu, control = await self._idle(seconds)
        memory = max(worker.memory() for worker in self._workers.values())
        scraped = max([found.seconds for each in self._workers.values() if (found := await scrape(each))])
        takeover = await self._took(self._kill(WORKERS - 1))
        rebalance = await self._took(self._begin([WORKERS - 1]))
        return Group(
            queues=self._queues,
            start=start,
            takeover=takeover,
            rebalance=rebalance,
            cpu_share=cpu,
            rss=memory,
            control_rate=control,
            scrape_seconds=scraped,
        )

    async def end(self) -> None:
        await asyncio.gather(*(worker.stopped() for worker in self._workers.values()))

    async def _begin(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            job = replace(self._job, directory=made(self._job.directory / f"worker-{number}"))
            self._workers[number] = Measured(
                await self._program.command(job),
                log=job.directory / "output",
                environment=self._program.environment(job),
            )

    async def _kill(self, number: int) -> None:
        await self._workers.pop(number).killed()

    async def _took(self, event: Awaitable[None]) -> float:
        """Seconds until every worker copies, all queues are copied, and a message of each topic has come."""
        begun = time.monotonic()
        await event
        for topic in self._topics:
            await self._source.send(topic, TOPIC_QUEUES - 1, topic.encode())
        self._sent += 1
        while not (await self._all_copied() and await self._all_came()):
            if time.monotonic() - begun > _LIMIT_SECONDS or not all(
                each.running for each in self._workers.values()
            ):
                outputs = [each.output() for each in self._workers.values()]
                raise ContenderFailed(
                    "\n".join([f"{self._queues} queues are not all copied; the outputs:", *outputs])
                )
            await asyncio.sleep(_POLL_SECONDS)
        return time.monotonic() - begun

    async def _all_copied(self) -> bool:
        pages = [await scrape(worker) for worker in self._workers.values()]
        ours = ('topic="group-', 'state="running"')  # not what waits at the source, and is parked
        copied = [page.total("queues", *ours) for page in pages if page is not None]
        return len(copied) == len(self._workers) and min(copied) > 0 and sum(copied) == self._queues

    async def _all_came(self) -> bool:
        return min([await self._target.head(topic, TOPIC_QUEUES - 1) for topic in self._topics]) == self._sent

    async def _idle(self, seconds: float) -> tuple[float, float]:
        await asyncio.sleep(_QUIET_SECONDS)
        begun, written = time.monotonic(), await self._source.written()
        used = {number: worker.cpu() for number, worker in self._workers.items()}
        await asyncio.sleep(seconds)
        took = time.monotonic() - begun
        share = max((worker.cpu() - used[number]) / took for number, worker in self._workers.items())
        return share, (await self._source.written() - written) / took


def _line(found: Group) -> str:
    return (
        f"{WORKERS} workers, {found.queues:,} queues: start {found.start:.1f} s, takeover {found.takeover:.1f} s,"
        f" rebalance {found.rebalance:.1f} s; a worker {found.cpu_share:.1%} of a core, {found.rss / 1e6:.0f} MB,"
        f" scrape {found.scrape_seconds:.2f} s; the group {found.control_rate:,.0f} B/s"
    )
