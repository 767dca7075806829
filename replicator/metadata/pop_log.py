"""Reads what POP consumers of a cluster hold from the brokers' own records, a little more each time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final

from replicator.aio.bounded import bounded
from replicator.aio.clock import now
from replicator.client.brokers import max_offset, offset_near, read_settings
from replicator.client.cluster import Cluster
from replicator.client.endpoint import Endpoint
from replicator.client.offsets import OffsetTable
from replicator.client.pull import Subscription, pull
from replicator.client.queue_range import read_range
from replicator.client.system_topics import TIMER_TOPIC
from replicator.client.topics import is_missing
from replicator.errors import BrokerRefused, ClientError, ProtocolError
from replicator.metadata.pop_checkpoints import (
    CHECKPOINT_TAG,
    REVIVE_GROUP,
    REVIVE_PREFIX,
    Consumption,
    InFlight,
    PopCheckpoints,
)
from replicator.routing.dispatch_barrier import DispatchBarrier

__all__ = ["LOOK_BACK", "PopLog"]

#: Seconds: records that are older are not read at the start. A message that was delivered before that, once and for
#: longer, is not seen.
LOOK_BACK: Final = 3600.0

#: Seconds after which a broker is asked again where it keeps the records: it may have been restarted with others.
_SETTINGS: Final = 60.0

#: Seconds in which the records of a broker are read at most, each time.
_READING: Final = 5.0
_AT_ONCE: Final = 8
#: Pulls under way at a broker, which over 50 ms give 10,000 records a second; each acknowledgement is one.
_PULLS: Final = 16

_CHECKPOINTS: Final = Subscription("TAG", CHECKPOINT_TAG)


@dataclass(slots=True)
class _Broker:
    checkpoints: PopCheckpoints
    #: When the oldest record that is read was stored, in milliseconds since the epoch.
    since: int
    #: The next record of the timer to read.
    timer: int
    #: Whether it keeps them in RocksDB instead, where nobody can read them (`popConsumerKVServiceEnable`).
    hidden: bool = False
    #: When it has last said so, or that the account may not ask.
    asked: float = -inf
    #: Per topic and queue the next record to look at of those that are due.
    due: dict[tuple[str, int], int] = field(default_factory=dict)


class PopLog:
    """What POP consumers hold at each broker of a source.

    `behind` are brokers whose records are not all read yet, `problems` those whose records cannot be read; both say
    why, and are of the last reading.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.behind: dict[str, str] = {}
        self.problems: dict[str, str] = {}
        self._cluster = cluster
        self._barrier = DispatchBarrier()
        self._brokers: dict[str, _Broker] = {}

    async def in_flight(self, consumed: Mapping[str, OffsetTable]) -> dict[Consumption, InFlight]:
        """What is held, no older than the offsets `consumed`, which were read before."""
        self.behind, self.problems = {}, {}
        await bounded(lambda each: self._read_broker(*each), consumed.items(), at_once=_AT_ONCE)
        self._brokers = {name: broker for name, broker in self._brokers.items() if name in consumed}
        found: dict[Consumption, InFlight] = {}
        for name, broker in self._brokers.items():
            found |= broker.checkpoints.in_flight()
            if broker.hidden:
                self.problems[name] = (
                    f"what POP consumers of {name} hold is not known: it keeps that in RocksDB"
                    " (popConsumerKVServiceEnable)"
                )
            if broker.checkpoints.overflowed:
                self.problems[name] = f"POP consumers of {name} hold more than is counted: the oldest is not known"
        return found

    async def _read_broker(self, name: str, table: OffsetTable) -> None:
        if table.unread:
            self.problems[name] = f"what POP consumers of {name} hold is not known: {table.unread}"
            return
        revived = {
            (topic, queue): offset
            for (group, topic), queues in table.offsets.items()
            if group == REVIVE_GROUP and topic.startswith(REVIVE_PREFIX)
            for queue, offset in queues.items()
        }
        try:
            reader = self._cluster.reader(name)
            reader.refuse_pause()
            broker = self._brokers.get(name) or await self._begin(name, reader)
            if now() - broker.asked > _SETTINGS:
                await _ask_where(broker, reader)
            async with asyncio.timeout(_READING):
                await self._read(broker, reader, revived)
        except (TimeoutError, ClientError, ProtocolError) as error:
            if is_missing(error):
                self.problems[name] = (
                    f"what POP consumers of {name} hold, if it has any, is not known: nobody may read its timer"
                    " (so with brokers of 5.1)"
                )
                return
            if not revived and not self._holds(name):
                return  # nobody consumes there by POP
            if isinstance(error, BrokerRefused):
                self.problems[name] = f"what POP consumers of {name} hold is not known: {error}"
            elif isinstance(error, ClientError | ProtocolError):
                self.behind[name] = f"what POP consumers hold is not known: {error}"
            else:
                self.behind[name] = "what POP consumers hold is not read completely yet"

    def _holds(self, name: str) -> bool:
        return name in self._brokers and bool(len(self._brokers[name].checkpoints))

    async def _begin(self, name: str, reader: Endpoint) -> _Broker:
        end = await max_offset(reader, TIMER_TOPIC, 0)
        newest = (await pull(reader, TIMER_TOPIC, 0, end - 1, count=1)).messages if end else ()
        # By the broker's clock. Of a broker that has stored nothing there, all that it will.
        since = max(0, newest[0].store_timestamp - int(LOOK_BACK * 1000)) if newest else 0
        begin = await offset_near(reader, TIMER_TOPIC, 0, since) if newest else end
        self._brokers[name] = broker = _Broker(PopCheckpoints(name), since, begin)
        return broker

    async def _read(self, broker: _Broker, reader: Endpoint, revived: Mapping[tuple[str, int], int]) -> None:
        if revived or len(broker.checkpoints):
            await self._barrier.caught_up(reader)  # or an offset might be newer than its record
        end = await max_offset(reader, TIMER_TOPIC, 0)
        broker.timer = min(broker.timer, end)  # another replica, which has less, may be the master now
        async for message in read_range(reader, TIMER_TOPIC, 0, broker.timer, end, at_once=_PULLS):
            broker.checkpoints.read(message)
            broker.timer = message.queue_offset + 1
        broker.timer = end
        if not len(broker.checkpoints):
            broker.due = {place: offset + 1 for place, offset in revived.items()}
            return
        for (topic, queue), offset in revived.items():
            await _drop_revived(broker, reader, topic, queue, offset)


async def _ask_where(broker: _Broker, reader: Endpoint) -> None:
    """Learns whether the records are where they can be read; of one that does not answer, the next look does."""
    with contextlib.suppress(BrokerRefused):  # the account may not read its settings
        broker.hidden = (await read_settings(reader)).get("popConsumerKVServiceEnable") == "true"
    broker.asked = now()


async def _drop_revived(broker: _Broker, reader: Endpoint, topic: str, queue: int, offset: int) -> None:
    """Forgets the checkpoints up to `offset`, the last one that the broker itself has seen to."""
    at = broker.due.get((topic, queue))
    if at is None:
        at = await offset_near(reader, topic, queue, broker.since)
    while at <= offset:
        pulled = await pull(reader, topic, queue, at, subscription=_CHECKPOINTS)
        broker.checkpoints.revived(each for each in pulled.messages if each.queue_offset <= offset)
        if pulled.next_offset <= at:
            break
        at = min(pulled.next_offset, offset + 1)
        broker.due[topic, queue] = at
