"""What must hold when the faults of a round are over, looked at from outside: brokers, history, workers' REST."""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

from replicator.client.cluster import Cluster as Client
from replicator.errors import ReplicatorError
from replicator.sandbox import Cluster
from tests.soak.brief import misplaced
from tests.soak.consumers import ahead
from tests.soak.history import History
from tests.soak.load import GROUP
from tests.soak.stage import BRIEF, TOPICS, Stage
from tests.support.history import check
from tests.support.readiness import exact
from tests.support.traffic import administration, raw_topic, read_topic
from tests.support.worker import Worker, until

__all__ = ["SETTLED", "findings", "settled"]

#: Seconds in which everything must flow again after the last fault.
SETTLED: Final = 90.0
#: A worker that has nothing to do takes less than this share of a core, and logs fewer lines a minute.
_IDLE_CPU: Final = 0.35
_IDLE_LINES: Final = 40
_IDLE_SECONDS: Final = 10.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")


async def settled(stage: Stage) -> float:
    """Waits until all that was sent is copied, and groups and accounts are alike at both sides.

    Returns the seconds that took.

    Raises:
        TimeoutError: it does not come to that.
    """
    begun = time.monotonic()
    for cluster in stage.clusters.values():
        await until(partial(_registered, cluster), seconds=SETTLED, what=f"name servers know {cluster.spec.name}")
    ends = {topic: {lane: len(m) for lane, m in (await raw_topic(stage.source, topic)).items()} for topic in TOPICS}

    def flows() -> bool:
        queues: dict[tuple[str, str, int], dict[str, Any]] = {}
        for worker in stage.workers:
            for queue in worker.get("/status/queues"):
                if queue["topic"] in TOPICS and queue["state"] == "RUNNING":
                    source = queue["source"]
                    queues[queue["topic"], source["broker"], source["queue"]] = queue
        return all(
            (queue := queues.get((topic, *lane))) is not None and queue["position"] >= end
            for topic, lanes in ends.items()
            for lane, end in lanes.items()
        )

    await until(flows, seconds=SETTLED, what="all queues run without lag")

    async def whole() -> bool:
        return not await misplaced(stage)

    await until(whole, seconds=SETTLED, what=f"{BRIEF}, as it is now, is copied")
    for topic in TOPICS:

        async def alike(topic: str = topic) -> bool:
            try:
                await exact(stage.source, stage.target, GROUP, topic)
            except AssertionError:
                return False
            return True

        await until(alike, seconds=SETTLED, what=f"{GROUP} stands alike in {topic}")
    if stage.accounts is not None:
        await stage.accounts.finish()
        await until(stage.accounts.alike, seconds=SETTLED, what="accounts may do the same at both sides")
    return time.monotonic() - begun


async def _registered(cluster: Cluster) -> bool:
    """Whether each name server knows every broker: to one that was killed they register again within seconds."""
    for address in cluster.namesrv.split(","):
        client = Client([address], security=administration(cluster))
        try:
            await client.refresh()
            if len(client.brokers()) < len({broker.name for broker in cluster.brokers}):
                return False
        except ReplicatorError:
            return False
        finally:
            await client.close()
    return True


async def findings(stage: Stage, history: History) -> list[str]:
    """What does not hold; empty where all does."""
    found = await misplaced(stage)
    copies = {}
    for topic in TOPICS:
        there, here = await read_topic(stage.source, topic), await read_topic(stage.target, topic)
        copies[topic] = here
        history.add("copied", topic=topic, places=[(message.place, message.origin) for message in here])
        verdict = check(there, here)
        if not verdict.clean:
            found.append(f"{topic}: {verdict.report()}")
        kept = {(m.place.broker, m.place.queue, m.place.offset): m.keys for m in there}
        for sent in history.of("sent"):
            if sent["topic"] == topic:
                for at, number in enumerate(sent["numbers"]):
                    if kept.get((sent["broker"], sent["queue"], sent["first"] + at)) != f"k{number}":
                        found.append(f"{topic}: the source does not have what it acknowledged: {sent}")
    found += ahead(history.entries(), copies)
    for worker in stage.workers:
        found += [
            f"{worker.store.parent.name}: {name} is {count:g}"
            for name in ("gap_messages_total", "audit_differences_total", "queues_failed")
            if (count := worker.metric(name) - worker.metric(name, topic=BRIEF))
        ]
    return found + await _hot(stage)


async def _hot(stage: Stage) -> list[str]:
    """Workers that are busy with nothing."""
    before = [(_cpu(worker.pid), _lines(worker)) for worker in stage.workers]
    await asyncio.sleep(_IDLE_SECONDS)
    found = []
    for worker, (cpu, lines) in zip(stage.workers, before, strict=True):
        share = (_cpu(worker.pid) - cpu) / _IDLE_SECONDS
        more = (_lines(worker) - lines) * 60 / _IDLE_SECONDS
        if share > _IDLE_CPU or more > _IDLE_LINES:
            found.append(
                f"{worker.store.parent.name} is busy with nothing: {share:.2f} cores, {more:.0f} lines a minute"
            )
    return found


def _lines(worker: Worker) -> int:
    """Those that it has logged, but for what a busy machine makes periodic work say."""
    return sum(event["module"] != "aio.schedule" for event in worker.events)


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
