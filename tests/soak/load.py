"""Producers and consumers at the source while faults come: what was acknowledged goes into the history."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Iterator
from itertools import islice
from typing import Final

from replicator.client.cluster import Cluster as Client
from replicator.client.offsets import commit_offset
from replicator.client.topics import read_topics
from replicator.errors import ReplicatorError
from replicator.sandbox import Cluster
from tests.soak.history import History
from tests.support.traffic import connected, send

__all__ = ["GROUP", "Load"]

GROUP: Final = "soak-consumers"
_BATCH: Final = 5
#: Seconds between two batches of a topic, and between two commits.
_PAUSE: Final = 0.05
_COMMITS: Final = 1.0


class Load:
    """Sends batches to all queues of `topic`, and moves `GROUP` on behind them, until `stop`.

    Args:
        numbers: of the messages, which go on from one load to the next.
        consumed: how far the group is in each queue, as it is left behind: it never goes back. None: it does not
            consume that topic.
    """

    def __init__(
        self,
        source: Cluster,
        topic: str,
        history: History,
        seed: str,
        *,
        numbers: Iterator[int],
        consumed: dict[tuple[str, int], int] | None,
    ) -> None:
        self._source = source
        self._topic = topic
        self._history = history
        self._chance = random.Random(seed)
        self._stop = asyncio.Event()
        self._ends: dict[tuple[str, int], int] = {}
        self._consumed = consumed
        self._numbers = numbers

    def stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        """Goes on through all faults; returns after `stop`."""
        while not self._stop.is_set():
            try:
                async with connected(self._source) as client:
                    await self._send(client)
            except (ReplicatorError, OSError) as error:
                self._history.add("producer failed", topic=self._topic, reason=str(error)[:200])
                await asyncio.sleep(0.3)

    async def _send(self, client: Client) -> None:
        """Until an error; it looks for new queues every few seconds."""
        lanes: list[tuple[str, int]] = []
        looked = committed = 0.0
        while not self._stop.is_set():
            if time.monotonic() - looked > 3:
                looked = time.monotonic()
                lanes = [lane for broker in client.brokers() for lane in await self._lanes(client, broker)] or lanes
            if not lanes:  # there was no master when it connected
                await asyncio.sleep(_PAUSE)
                return
            broker, queue_id = self._chance.choice(lanes)
            numbers = [*islice(self._numbers, _BATCH)]
            batch = [(b"%012d" % n, {"KEYS": f"k{n}", "UNIQ_KEY": f"{self._topic}-{n}"}) for n in numbers]
            stored = await send(client, broker, self._topic, queue_id, batch)
            first = stored.offset
            self._ends[broker, queue_id] = first + _BATCH
            self._history.add(
                "sent", topic=self._topic, broker=broker, queue=queue_id, first=first, numbers=numbers
            )
            if self._consumed is not None and time.monotonic() - committed > _COMMITS:
                committed = time.monotonic()
                await self._commit(client, self._consumed, self._chance.random())
            await asyncio.sleep(_PAUSE)

    async def _lanes(self, client: Client, broker: str) -> list[tuple[str, int]]:
        """One that is down now is left out."""
        with contextlib.suppress(ReplicatorError, KeyError):
            config = (await read_topics(client.master(broker))).topics[self._topic]
            return [(broker, queue_id) for queue_id in range(config.queues)]
        return []

    async def _commit(self, client: Client, consumed: dict[tuple[str, int], int], part: float) -> None:
        """Of each queue that was sent to, the group has consumed about so much."""
        for (broker, queue_id), end in [*self._ends.items()]:
            offset = max(consumed.get((broker, queue_id), 0), end - int(part * 20))
            consumed[broker, queue_id] = offset
            self._history.add("commits", topic=self._topic, broker=broker, queue=queue_id, offset=offset)
            await commit_offset(client.writer(broker), GROUP, self._topic, queue_id, offset)
            self._history.add("committed", topic=self._topic, broker=broker, queue=queue_id, offset=offset)
