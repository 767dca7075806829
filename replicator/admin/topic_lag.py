"""Which messages of a route's topics the target lacks, read from the source itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import inf
from typing import Any, Final

from replicator.aio.bounded import bounded
from replicator.client.brokers import max_offset, min_offset, offset_at
from replicator.client.pull import pull
from replicator.client.unresponsive import UnresponsiveBrokers
from replicator.connector.context import ConnectorContext
from replicator.connector.route import Route
from replicator.errors import ClientError, ProtocolError, Unreachable
from replicator.plugins.route_options import route_options
from replicator.protocol.codes import Response
from replicator.ranges.reader import RangeReader
from replicator.routing.message_queue import MessageQueue
from replicator.routing.options import RouteOptions

__all__ = ["topic_lags"]

#: Concurrent requests, and queues whose messages are read at a time: each takes up to 8 MiB.
_AT_ONCE: Final = 64
_READ_AT_ONCE: Final = 4
#: Seconds in which messages are read to be counted. Those that there is no time for count as missing.
_COUNTING: Final = 5.0


async def topic_lags(route: Route, context: ConnectorContext, *, patience: float = inf) -> list[dict[str, Any]]:
    """Per topic how many messages of the source are not at the target, and since when.

    Messages that the route leaves out, such as copies that came from the target, are not missing there. To tell
    them apart the messages are read, as far as that takes seconds only.

    Args:
        patience: seconds after which no more requests are made.
    """
    problems = route.problems
    plans = list(route.topics.plans)
    options = route_options(route.settings, context.identity, settle_timeout=context.settle_timeout)
    waiting = route.parking.options(options)

    def options_of(topic: str) -> RouteOptions:
        return waiting if topic in route.topics.parked else options

    source = _Source(route, context, options_of, patience)
    queues_of_all = [MessageQueue(plan.topic, *queue) for plan in plans for queue in plan.queue_map]
    lags = iter(zip(queues_of_all, await bounded(source.lag, queues_of_all, at_once=_AT_ONCE), strict=True))
    found = []
    for plan in plans:
        of_topic = list(islice(lags, len(plan.queue_map)))
        queues = [lag for _, lag in of_topic]
        found.append(
            {
                "topic": plan.topic,
                "target": plan.target_topic,
                "messages": sum(each.messages for each in queues),
                "counted": all(each.counted for each in queues),
                "seconds": max((each.seconds for each in queues), default=0.0),
                "seconds_known": all(each.dated for each in queues),
                "problem": problems.get(plan.topic) or next((each.problem for each in queues if each.problem), ""),
                "unknown_queues": [source.last_known(queue) for queue, lag in of_topic if lag.problem],
            }
        )
    return found


@dataclass(frozen=True, slots=True)
class _Lag:
    """`dated`: the age of the oldest message is known."""

    messages: int = 0
    seconds: float = 0.0
    problem: str = ""
    counted: bool = True
    dated: bool = True


class _Source:
    """The lag of queues, from one round of requests to the source."""

    def __init__(
        self,
        route: Route,
        context: ConnectorContext,
        options_of: Callable[[str], RouteOptions],
        patience: float,
    ) -> None:
        self._copy = route.sync.copied.snapshot()
        self._begins_late = partial(context.store.begins_late, route.name)
        self._context = context
        self._options_of = options_of
        self._deadline = time.monotonic() + patience
        self._counting_until = asyncio.get_running_loop().time() + min(_COUNTING, patience)
        self._reading = asyncio.Semaphore(_READ_AT_ONCE)
        self._unresponsive = UnresponsiveBrokers({})

    async def lag(self, queue: MessageQueue) -> _Lag:
        """The messages of a source queue that are missing at the target."""
        if time.monotonic() >= self._deadline:
            return _unknown("there was not enough time to ask for it")
        try:
            begin, end = await self._unresponsive.ask(queue.broker, partial(self._missing, queue))
            if end < begin:
                return _unknown(
                    f"it shows offset {end}, and was copied to {begin}: the source has lost messages, or does not"
                    " show all of them yet"
                )
            return _Lag() if end == begin else await self._count(queue, begin, end)
        except (ClientError, ProtocolError) as error:
            return _unknown(str(error))

    def last_known(self, queue: MessageQueue) -> dict[str, Any]:
        """How far a queue was copied."""
        copied = self._copy.queue(queue.topic, queue.queue)
        stored = copied.copied_until if copied is not None else 0
        return {
            "broker": queue.broker,
            "queue": queue.queue_id,
            "position": copied.position if copied is not None else None,
            "copied_until": stored / 1000 if stored else None,
        }

    async def _missing(self, queue: MessageQueue) -> tuple[int, int]:
        """The source offsets [begin, end) that the route has not come to.

        Raises:
            Unreachable: only a slave could be asked: its master may have more.
        """
        copied, cluster = self._copy.queue(queue.topic, queue.queue), self._context.source.cluster
        reader = cluster.reader(queue.broker)
        if not cluster.is_master(queue.broker, reader.address):
            raise Unreachable(reader.address, "it is a slave, and the master may have more")
        reader.refuse_pause()
        place = (reader, queue.topic, queue.queue_id)
        end, start_from = await max_offset(*place), self._options_of(queue.topic).start_from
        if copied is not None:
            return copied.position, end
        if self._begins_late(queue.topic, queue.queue):  # it is copied from its first message
            start_from = "earliest"
        if start_from == "latest":
            return end, end
        return await (min_offset(*place) if start_from == "earliest" else offset_at(*place, start_from)), end

    async def _count(self, queue: MessageQueue, begin: int, end: int) -> _Lag:
        """Reads [begin, end) as the route would, which leaves out what is not to be copied."""
        cluster = self._context.source.cluster
        options = self._options_of(queue.topic)
        reader = RangeReader(cluster, queue.topic, queue.queue, begin, end, on_loss="skip", options=options)
        messages, stored, counted = 0, 0, True
        try:
            async with asyncio.timeout_at(self._counting_until), self._reading:
                async for chunk in reader.chunks():
                    messages += len(chunk)
                    stored = stored or (chunk[0].store_timestamp if chunk else 0)
        except TimeoutError:
            messages, counted = messages + end - reader.position, False
        if not counted and not stored:
            stored = await self._oldest(queue, begin)
        seconds = max(0.0, time.time() - stored / 1000) if stored else 0.0
        return _Lag(messages, seconds, counted=counted, dated=bool(stored or not messages))

    async def _oldest(self, queue: MessageQueue, begin: int) -> int:
        """When the oldest message from `begin` on that the source still has was stored, in ms; 0: not known."""
        place = (self._context.source.cluster.reader(queue.broker), queue.topic, queue.queue_id)
        found = await pull(*place, begin, count=1)
        if found.code == Response.PULL_OFFSET_MOVED and begin < found.min_offset:
            found = await pull(*place, found.min_offset, count=1)
        return found.messages[0].store_timestamp if found.messages else 0


def _unknown(why: str) -> _Lag:
    return _Lag(problem=f"the end of the source queue is not known: {why}")
