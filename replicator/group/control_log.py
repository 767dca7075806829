"""System topics of a cluster as a log that every worker of a group writes and reads whole.

Each topic has one queue on each broker. Everything is written to up to three brokers, and read from all of them,
so that the group continues while one of them is down. A topic that was deleted is created again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, Protocol

from replicator.aio.backoff import Backoff
from replicator.aio.clock import now
from replicator.client.brokers import max_offset, offset_near
from replicator.client.cluster import Cluster
from replicator.client.endpoint import Endpoint
from replicator.client.nameservers import NoBrokers
from replicator.client.pull import GROUP, pull
from replicator.client.queue_range import recent_range
from replicator.client.send import send_single
from replicator.client.topics import TopicConfig, is_missing
from replicator.errors import ClientError, NothingShown, ProtocolError, ReplicatorError, StartupError, is_absence
from replicator.group.log_topics import LogTopics
from replicator.observe.logging import get_logger
from replicator.observe.reminder import Reminder
from replicator.protocol.batch import header_fields
from replicator.protocol.codes import Response
from replicator.routing.message_queue import MessageQueue

__all__ = ["ControlLog", "LogMessage", "MirrorLog", "until_read"]

#: Seconds that a broker holds a pull of ours; a new broker or master is noticed no later.
_SUSPEND: Final = 5.0
#: Seconds between attempts to read where reading fails: the first, and the most.
_PAUSE_FIRST: Final = 0.05
_PAUSE_MOST: Final = 0.5
#: Seconds for which a broker may give nothing of a queue that goes on, as busy ones do, until nobody waits for it.
_NOTHING_SHOWN: Final = 10.0
#: Seconds that a write may take before it is tried elsewhere.
_WRITE: Final = 2.0
#: Seconds that name servers are asked who the masters are after a write that no broker took.
_PATIENCE: Final = 1.0
#: Milliseconds by which the clocks of two replicas differ at most.
_SKEW: Final = 60_000
#: Messages per pull, and concurrent pulls of what exists at the start: a broker may be far away.
_COUNT: Final = 32
_AT_ONCE: Final = 8

log = get_logger(__name__)


class LogMessage(NamedTuple):
    """A message of the log; `stored` is the broker's clock in milliseconds since the epoch."""

    queue: MessageQueue
    body: bytes
    stored: int


class _Read(NamedTuple):
    """The message of a queue that was read last, and from which address; empty if that is to be looked at again."""

    offset: int
    stored: int
    address: str


class MirrorLog(Protocol):
    """What carries a group's mirror: a `ControlLog` on the target."""

    @property
    def caught_up(self) -> bool: ...

    @property
    def was_read(self) -> bool: ...

    async def open(self, there: Mapping[str, Mapping[str, TopicConfig]]) -> None: ...

    async def refresh(self) -> None: ...

    def forget(self, broker: str) -> None: ...

    async def close(self) -> None: ...

    async def write(self, topic: str, body: bytes, *, copies: int = 1) -> None: ...


async def until_read(log: MirrorLog, caught_up: asyncio.Event) -> None:
    """Returns once all that can be read was read to its end, and each topic at one broker at least.

    Without the second, a log whose only broker drops the connection halfway would count as read.

    Args:
        caught_up: what the log sets when it has caught up.
    """
    while not (log.caught_up and log.was_read):
        await caught_up.wait()
        caught_up.clear()


class ControlLog:
    """The log over `cluster`, whose connections should serve nothing else: heartbeats must not queue.

    Args:
        topics: each with the seconds of its past that a new reader wants.
        side: which cluster it is, for people: `source` or `target`.
        on_said: called with every message, in the order of its queue.
        on_reset: called when messages of a topic are gone: it had to be recreated, or a broker has lost the newest,
            as one does that is restored to an older store, or a slave that becomes the master too early.
        on_caught_up: called when all queues that can be read have been read to their ends; again after those of a
            new broker, and when a topic that could be read at no broker was read to its end after all.
    """

    def __init__(
        self,
        cluster: Cluster,
        topics: dict[str, float],
        *,
        side: str = "source",
        on_said: Callable[[LogMessage], None],
        on_reset: Callable[[MessageQueue], None],
        on_caught_up: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._log_topics = LogTopics(cluster, topics)
        self._side = side
        self._on_said = on_said
        self._on_reset = on_reset
        self._on_caught_up = on_caught_up
        self._tails: dict[MessageQueue, asyncio.Task[None]] = {}
        #: Brokers whose last write failed -> the one background retry, if any.
        self._shunned: dict[str, asyncio.Task[ReplicatorError | None] | None] = {}
        self._last: dict[MessageQueue, _Read] = {}
        self._behind: set[MessageQueue] = set()
        self._read_topics: set[str] = set()

    async def open(self, there: Mapping[str, Mapping[str, TopicConfig]]) -> None:
        """Creates the topics where they are missing, and begins to read.

        Args:
            there: the topics of each broker, by name; brokers that are not in it are asked for theirs.

        Raises:
            NoBrokers: no broker that can be reached takes messages, as while its master is away: waiting helps.
            StartupError: no broker lets us use the topics or create them.
        """
        await self._cluster.refresh()
        brokers = self._cluster.brokers()  # one or more: `refresh` has seen to that
        provided = await asyncio.gather(*(self._log_topics.provide(name, there.get(name)) for name in brokers))
        failures = [failure for failure in provided if failure is not None]
        if len(failures) == len(provided):
            if all(map(is_absence, failures)):
                raise NoBrokers(f"no broker of the {self._side} takes messages: {failures[0]}", hint="start one")
            raise StartupError(
                f"the system topics of the worker group at the {self._side} can be neither used nor created:"
                f" {failures[0]}",
                hint=f"let the {self._side}'s account create, read and write them,"
                " or run a single worker with --standalone",
            ) from failures[0]
        self._follow()

    def _follow(self) -> None:
        """Reads every broker that there is."""
        for broker in self._cluster.brokers():
            for topic, past in self._topics.items():
                queue = MessageQueue(topic, broker, 0)
                if queue not in self._tails:
                    self._behind.add(queue)
                    self._tails[queue] = asyncio.create_task(self._tail(queue, past), name=f"read {queue}")

    async def refresh(self) -> None:
        """Finds new brokers, and masters that have moved."""
        await self._cluster.refresh()
        self._follow()

    def forget(self, broker: str) -> None:
        """No more reading or writing at `broker`, until the name servers list it again."""
        self._cluster.forget(broker)
        for queue in [queue for queue in self._tails if queue.broker == broker]:
            self._tails.pop(queue).cancel()
            self._wait_no_more(queue)
        attempt = self._shunned.pop(broker, None)
        if attempt is not None:
            attempt.cancel()

    async def close(self) -> None:
        """Stops reading."""
        running = [*self._tails.values(), *(each for each in self._shunned.values() if each is not None)]
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    @property
    def caught_up(self) -> bool:
        """Whether all queues that can be read have been read to their ends.

        A new broker makes it False again until its queues are, too; `Group.join` and `Mirror.caught_up` remember
        that it was True.
        """
        return not self._behind

    @property
    def was_read(self) -> bool:
        """Whether each topic was really read to its end at one broker at least; True from then on."""
        return self._read_topics.issuperset(self._topics)

    async def write(self, topic: str, body: bytes, *, copies: int = 1) -> None:
        """Appends `body` on `copies` brokers if there are as many, and on one at least.

        A broker that failed the last time is not waited for, unless no other one is left: heartbeats must not be
        late because one of several brokers is down.

        Raises:
            ClientError: on none; whether one has it nevertheless is unknown.
        """
        order = self._order()
        well = [broker for broker in order if broker not in self._shunned]
        first = (well or order)[:copies]
        aside = order[len(first) : copies] if well else []
        for broker in aside:
            self._write_aside(broker, topic, body)
        written = await asyncio.gather(*(self._write(broker, topic, body) for broker in first))
        failures = [failure for failure in written if failure is not None]
        if len(failures) < len(first):
            return
        for broker in (each for each in order if each not in first):
            failure = await self._write(broker, topic, body)
            if failure is None:
                return
            failures.append(failure)
        await self._find_masters()
        raise failures[0] if failures else ClientError(f"the {self._side} has no broker")

    async def _find_masters(self) -> None:
        """Another replica may be the master by now: leases must not wait for the next look at the cluster."""
        with contextlib.suppress(ReplicatorError, TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await self._cluster.refresh()

    def _order(self) -> list[str]:
        return sorted(self._cluster.brokers(), key=lambda broker: (broker in self._shunned, broker))

    def _write_aside(self, broker: str, topic: str, body: bytes) -> None:
        """Tries it at a broker that has failed, while others are not kept waiting; one attempt at a time."""
        busy = self._shunned[broker]
        if busy is None or busy.done():
            self._shunned[broker] = asyncio.create_task(self._write(broker, topic, body), name=f"write {broker}")

    async def _write(self, broker: str, topic: str, body: bytes) -> ReplicatorError | None:
        fields = header_fields(
            group=GROUP, topic=topic, queue_id=0, sys_flag=0, born_timestamp=0, reconsume_times=0
        ) | {"m": "false"}
        try:
            async with asyncio.timeout(_WRITE):
                await send_single(self._cluster.writer(broker), fields, body)
        except TimeoutError:
            failure: ReplicatorError = ClientError(f"{self._side} broker {broker} did not store a message in time")
        except (ClientError, ProtocolError) as error:
            failure = error
            if is_missing(error):
                await self._remake(MessageQueue(topic, broker, 0))
        else:
            self._shunned.pop(broker, None)
            return None
        self._shunned.setdefault(broker, None)
        return failure

    async def _tail(self, queue: MessageQueue, past: float) -> None:
        at, end = await self._insist(queue, lambda: self._begin(queue, past))
        while True:
            if at >= end:
                self._has_ended(queue)
            at, end = await self._insist(queue, lambda: self._read(queue, at, end))  # noqa: B023 - awaited at once

    async def _insist(self, queue: MessageQueue, read: Callable[[], Awaitable[tuple[int, int]]]) -> tuple[int, int]:
        reminder, backoff, began = Reminder(), Backoff(_PAUSE_FIRST, _PAUSE_MOST), now()
        while True:
            try:
                return await read()
            except (ClientError, ProtocolError) as error:
                if is_missing(error):
                    await self._remake(queue)
                elif reminder.is_due(str(error)):
                    log.warning("system topic cannot be read", queue=str(queue), reason=str(error))
                shows_nothing = isinstance(error, NothingShown)
                if not shows_nothing and queue in self._last:  # one that is only busy has not lost anything
                    self._last[queue] = self._last[queue]._replace(address="")
                if not shows_nothing or now() - began > _NOTHING_SHOWN:
                    self._wait_no_more(queue)  # nobody waits for a broker that is down
            await asyncio.sleep(backoff.next())

    def _has_ended(self, queue: MessageQueue) -> None:
        """`queue` was read to its end: news even if nobody waited for it, unless its topic was read elsewhere."""
        is_first = queue.topic not in self._read_topics
        self._read_topics.add(queue.topic)
        if queue in self._behind:
            self._wait_no_more(queue)
        elif is_first and not self._behind:
            self._has_caught_up()

    def _wait_no_more(self, queue: MessageQueue) -> None:
        if queue in self._behind:
            self._behind.discard(queue)
            if not self._behind:
                self._has_caught_up()

    def _has_caught_up(self) -> None:
        try:
            self._on_caught_up()
        except Exception as error:
            log.error("what follows the reading of the system topics failed", reason=repr(error), exc_info=error)

    async def _remake(self, queue: MessageQueue) -> None:
        try:
            await self._log_topics.create(queue)
        except (ClientError, ProtocolError) as error:
            log.warning("system topic cannot be created", queue=str(queue), reason=str(error))
            return
        log.warning("system topic was missing and has been recreated", queue=str(queue))
        self._on_reset(queue)

    async def _begin(self, queue: MessageQueue, past: float) -> tuple[int, int]:
        return await recent_range(self._cluster.reader(queue.broker), queue.topic, queue.queue_id, past)

    async def _read(self, queue: MessageQueue, at: int, end: int) -> tuple[int, int]:
        """Reads from `at`, with several pulls if `end` is far; returns where to continue, and the queue's end.

        Raises:
            NothingShown: the broker gives nothing from `at` on, though the queue goes on there.
        """
        broker, ahead = self._cluster.reader(queue.broker), range(at, end, _COUNT)[:_AT_ONCE] or [at]
        if await self._has_lost(queue, broker):
            return await self._begin_again(queue)
        answers = await asyncio.gather(
            *(pull(broker, queue.topic, queue.queue_id, offset, count=_COUNT, suspend=_SUSPEND) for offset in ahead)
        )
        begun, stuck = at, False
        for offset, pulled in zip(ahead, answers, strict=True):
            if offset != at:  # the answer before was a shorter one
                break
            if pulled.code == Response.PULL_OFFSET_MOVED:
                if at > pulled.max_offset:
                    self._refuse_slave(queue, broker)
                    return await self._begin_again(queue)
                # Records that were deleted unread come again: all state is published each
                # `state_republish_interval`. Heartbeats of that age are of no use.
                return pulled.min_offset, pulled.max_offset
            for message in pulled.messages:
                self._on_said(LogMessage(queue, message.content, message.store_timestamp))
                self._last[queue] = _Read(message.queue_offset, message.store_timestamp, broker.address)
            is_behind = at < pulled.max_offset or pulled.code == Response.PULL_RETRY_IMMEDIATELY
            stuck = pulled.next_offset <= at and is_behind
            at, end = pulled.next_offset, pulled.max_offset
        if stuck and at <= begun:
            raise NothingShown(broker.address, str(queue), begun, end)
        return at, end

    async def _has_lost(self, queue: MessageQueue, broker: Endpoint) -> bool:
        """Whether the broker, or the replica that is read now, has not, or no more, what was read of it last."""
        last = self._last.get(queue)
        if last is None or last.address == broker.address:
            return False
        found = await pull(broker, queue.topic, queue.queue_id, last.offset, count=1)
        is_old = found.code == Response.PULL_OFFSET_MOVED and last.offset < found.min_offset  # and deleted as such
        if all((each.queue_offset, each.store_timestamp) != last[:2] for each in found.messages) and not is_old:
            self._refuse_slave(queue, broker)
            return True
        self._last[queue] = last._replace(address=broker.address)
        return False

    def _refuse_slave(self, queue: MessageQueue, broker: Endpoint) -> None:
        """What a slave does not have yet is not lost; it is asked again.

        Raises:
            ClientError: it is one.
        """
        if not self._cluster.is_master(queue.broker, broker.address):
            raise ClientError(f"slave {broker.address} does not yet have what its master had")

    async def _begin_again(self, queue: MessageQueue) -> tuple[int, int]:
        log.warning("system topic has lost its newest messages: what came since is read", queue=str(queue))
        last, broker = self._last.get(queue), self._cluster.reader(queue.broker)
        end = await max_offset(broker, queue.topic, queue.queue_id)
        if last is None or end == 0:
            at, end = await self._begin(queue, self._topics[queue.topic])
        else:  # what was written since, on whichever replica, was stored after what was read of it last
            at = await offset_near(broker, queue.topic, queue.queue_id, max(0, last.stored - _SKEW))
        self._last.pop(queue, None)
        self._on_reset(queue)
        return at, end
