"""The Spark task that copies queues for the worker that owns them, until that ends it.

Each queue is a pair of source and sink task, as in a worker, and fails or waits alone. The task reports what has
changed, and may send only while its owner answers.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Final

from replicator.client.brokers import DEFAULT_MAX_MESSAGE, read_config
from replicator.client.cluster import Cluster
from replicator.errors import ConfigError, ReplicatorError
from replicator.observe.logging import get_logger
from replicator.plugins.route_options import route_options
from replicator.ranges.auditor import StreamAuditor
from replicator.routing.budget import MemoryBudget
from replicator.routing.dead_letter import DeadLetters
from replicator.routing.dispatch_barrier import DispatchBarrier
from replicator.routing.foreign_writes import ForeignWriteInspector
from replicator.routing.limiter import RateLimiter
from replicator.routing.message_queue import MessageQueue
from replicator.routing.pair import QueuePair
from replicator.routing.parked import ReleasedMessages
from replicator.routing.recovery_slots import RecoverySlots
from replicator.routing.shared import Shared
from replicator.routing.state import Phase, QueueState
from replicator.routing.target_watch import TargetWatch
from replicator.routing.watchdog import Watchdog
from replicator.settings import RouteSettings
from replicator.spark.resident.channel import Channel, ChannelLost
from replicator.spark.resident.job import ResidentJob
from replicator.spark.resident.lease import GrantedLease
from replicator.spark.resident.messages import (
    Drain,
    Grant,
    Hello,
    Part,
    Released,
    Report,
    Terms,
    Work,
    pages,
    read_worker_message,
    write,
)
from replicator.spark.resident.snapshot import Known, Snapshot, put, snapshot

__all__ = ["reside"]

#: Seconds between two reports.
_REPORT: Final = 0.5
#: Reports after which everything is sent, changed or not.
_ALL: Final = 20
#: Seconds without an answer to a report after which the owner is gone.
_SILENT: Final = 10.0
#: Seconds between two looks for queues that stand still, and between two at the clusters.
_RESTART_INTERVAL: Final = 1.0
_REFRESH: Final = 5.0

log = get_logger(__name__)


async def reside(job: ResidentJob) -> None:
    """Copies what the owner asks for; returns when the owner ends it.

    Raises:
        ChannelLost: the owner is gone, or has another task for this job.
        StartupError, ClientError: a cluster cannot be reached.
    """
    lease = GrantedLease()
    async with (
        job.source.connected(patience=job.patience) as source,
        job.target.connected(patience=job.patience, may_go_on=lease.holds) as target,
    ):
        channel = await Channel.connect(job.owner, job.key)
        try:
            await _Task(job, channel, lease, source, target).run()
        finally:
            channel.close()


class _Queue:
    """A queue that is copied here; `wake_up` ends the wait of a failed one: it is tried again, or drained."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.state = QueueState(part.topic, part.source, part.target, route=part.route)
        put(self.state, part.state)
        self.state.audit.aged = 0.0  # it is audited here from now on
        self.state.set_phase(Phase.STARTING)
        self.known = Known()
        self.pair: QueuePair | None = None
        self.run: asyncio.Task[None] | None = None
        self.wake_up = asyncio.Event()
        self.draining = False
        self.ended = False
        self.reported: tuple[object, ...] = ()

    @property
    def name(self) -> str:
        """What it is called in logs."""
        return str(MessageQueue(self.state.topic, *self.state.source))

    def mark(self) -> tuple[object, ...]:
        """What the owner is to hear of when it changes."""
        state, progress, counters = self.state, self.state.progress, self.state.counters
        return (
            state.phase,
            state.reason,
            state.stalled,
            progress.position,
            progress.max_offset,
            progress.head_timestamp,
            progress.clean,
            counters.copied,
            counters.retries,
            counters.foreign,
            counters.duplicates,
            state.audit.verified_to,
            state.audit.verified,
            self.ended,
        )


class _Task:
    def __init__(
        self, job: ResidentJob, channel: Channel, lease: GrantedLease, source: Cluster, target: Cluster
    ) -> None:
        self._job = job
        self._channel = channel
        self._lease = lease
        self._source = source
        self._target = target
        self._budget = MemoryBudget(job.memory_bytes)
        self._inspector = ForeignWriteInspector()
        self._events: list[Mapping[str, Any]] = []
        self._watch = TargetWatch()
        self._auditor = StreamAuditor(self._events.append)
        self._recovering = RecoverySlots()
        self._barrier = DispatchBarrier()
        #: Seconds that the worker's clock is ahead of ours, and that the source's brokers are ahead of the worker.
        self._ahead = 0.0
        self._skews: Mapping[str, float] = {}
        self._watchdog = Watchdog(job.stall_timeout)
        self._limits: dict[str, int] = {}
        self._learning: dict[str, asyncio.Task[None]] = {}
        self._terms: dict[str, Terms] = {}
        self._rates: dict[str, tuple[int, int]] = {}
        self._released: defaultdict[str, ReleasedMessages] = defaultdict(ReleasedMessages)
        self._routes: dict[str, Shared] = {}
        self._queues: dict[str, _Queue] = {}
        self._soon = asyncio.Event()

    async def run(self) -> None:
        """Until the owner ends it; raises what else ended it."""
        self._channel.send(write(Hello(self._job.number, socket.gethostname())))
        duties: list[Awaitable[None]] = [
            *(self._listen(), self._report(), self._refresh(), self._restart_failed()),
            *(self._inspector.run(), self._watch.run(self._target), self._auditor.run()),
        ]
        running = [asyncio.ensure_future(each) for each in duties]
        try:
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            ending = [*running, *(queue.run for queue in self._queues.values() if queue.run is not None)]
            for each in ending:
                each.cancel()
            await asyncio.wait(ending)

    # What the owner says.

    async def _listen(self) -> None:
        while True:
            match read_worker_message(await self._channel.receive()):
                case Work(routes, parts, rates):
                    self._limit({**self._rates, **rates})
                    self._begin(routes, parts)
                case Released(route, fingerprints):
                    for topic, those in fingerprints.items():
                        self._released[route].know(topic, those)
                case Drain(keys, rates):
                    self._limit(rates)
                    self._drain(keys)
                case Grant(sequence, seconds, rates, clock, skews):
                    self._lease.grant(sequence, seconds)
                    self._limit(rates)
                    self._compare(clock, skews)
                case _:
                    return

    def _compare(self, clock: float, skews: Mapping[str, float]) -> None:
        """Latency is shown by the worker's clock corrected by the brokers', and this machine has one of its own."""
        self._ahead, self._skews = clock - time.time(), skews
        for queue in self._queues.values():
            self._correct(queue)

    def _correct(self, queue: _Queue) -> None:
        queue.state.progress.skew = self._ahead + self._skews.get(queue.state.source.broker, 0.0)

    def _begin(self, routes: Mapping[str, Terms], parts: Iterable[Part]) -> None:
        for name, terms in routes.items():
            if self._terms.get(name) != terms:
                self._terms[name] = terms
                self._routes.pop(name, None)
        for part in parts:
            queue = self._queues[part.state.key] = _Queue(part)
            self._correct(queue)
            queue.run = asyncio.create_task(self._copy(queue), name=part.state.key)

    def _shared(self, route: str) -> Shared:
        """What the queues of a route have in common.

        Raises:
            ConfigError: a transform is not installed here.
        """
        if (made := self._routes.get(route)) is None:
            made = self._routes[route] = self._make_shared(route)
        return made

    def _make_shared(self, route: str) -> Shared:
        job, terms = self._job, self._terms[route]
        options = route_options(
            RouteSettings(**terms.settings),
            job.identity,
            settle_timeout=job.settle_timeout,
            sealer=job.sealer,
            late_before=terms.late_before,
            released=self._released[route],
        )
        return Shared(
            source=self._source,
            target=self._target,
            options=options,
            budget=self._budget,
            limiter=RateLimiter(*self._rates.get(route, (0, 0))),
            dead_letters=DeadLetters.of(self._target, options, self._limit_of),
            inspector=self._inspector,
            recovering=self._recovering,
            barrier=self._barrier,
            message_limit=self._limit_of,
            may_send=self._lease.holds,
            watch=self._watch,
            auditor=self._auditor,
        )

    def _limit_of(self, broker: str) -> int:
        return self._limits.get(broker, DEFAULT_MAX_MESSAGE)

    def _limit(self, rates: dict[str, tuple[int, int]]) -> None:
        for name, rate in rates.items():
            if name in self._routes and rate != self._rates.get(name):
                self._routes[name].limiter.set(*rate)
        self._rates = rates

    def _drain(self, keys: Iterable[str]) -> None:
        for key in keys:
            queue = self._queues.get(key)
            if queue is not None:
                queue.draining = True
                queue.wake_up.set()
                if queue.pair is not None:
                    queue.pair.drain()

    # The queues.

    async def _copy(self, queue: _Queue) -> None:
        """Copies a queue until it is drained; what ended because the lease was lost begins again with another."""
        state, part = queue.state, queue.part
        await self._know_limit(part.target.broker)
        while not queue.draining:
            await _first(self._lease.granted(), queue.wake_up.wait())
            queue.wake_up.clear()
            if queue.draining:
                state.set_phase(Phase.STOPPED)
                break
            try:
                shared = self._shared(part.route)
                queue.pair = QueuePair(state, shared, topic=part.target_topic, from_start=part.from_start)
                await queue.pair.run()
            except ConfigError as error:
                state.set_phase(Phase.FAILED, f"on {socket.gethostname()}: {error}")
            except Exception as error:
                state.set_phase(Phase.FAILED, f"{type(error).__name__}: {error}")
                log.exception("queue failed", connector=part.route, queue=queue.name)
            queue.pair = None
            if state.phase is Phase.FAILED and not queue.draining:
                await queue.wake_up.wait()
        queue.ended = True
        self._soon.set()

    async def _restart_failed(self) -> None:
        """Restarts queues that failed or stand still."""
        while True:
            await asyncio.sleep(_RESTART_INTERVAL)
            for key, queue in list(self._queues.items()):
                if queue.draining or not self._watchdog.wants_restart(key, queue.state, time.monotonic()):
                    continue
                log.warning(
                    "queue restarted",
                    connector=queue.state.route,
                    queue=queue.name,
                    state=str(queue.state.phase),
                    reason=queue.state.reason,
                )
                if queue.state.phase is Phase.FAILED:
                    queue.wake_up.set()
                elif queue.run is not None:
                    queue.run.cancel()
                    queue.run = asyncio.create_task(self._again(queue.run, queue), name=key)

    async def _again(self, before: asyncio.Task[None], queue: _Queue) -> None:
        await asyncio.wait([before])
        await self._copy(queue)

    # What is reported to the owner.

    async def _report(self) -> None:
        sequence = 0
        for turn in count():
            if self._lease.silence > _SILENT:
                raise ChannelLost("the owner does not answer")
            for states in [*pages(self._news(everything=turn % _ALL == 0), lambda each: each)] or [[]]:
                sequence += 1
                self._lease.ask(sequence)
                self._channel.send(write(Report(sequence, states, [dict(event) for event in self._events])))
                self._events.clear()
                await asyncio.sleep(0)
            self._soon.clear()
            await _first(asyncio.sleep(_REPORT), self._soon.wait())

    def _news(self, *, everything: bool) -> Iterable[Snapshot]:
        for key, queue in list(self._queues.items()):
            mark = queue.mark()
            if mark != queue.reported or everything:
                queue.reported = mark
                yield snapshot(queue.state, queue.known, ended=queue.ended)
            if queue.ended:
                del self._queues[key]

    # The clusters.

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH)
            for cluster in (self._source, self._target):
                try:
                    await cluster.refresh()
                except ReplicatorError as error:
                    log.debug("cluster cannot be looked at", reason=str(error))
            for broker in {queue.part.target.broker for queue in self._queues.values()}:
                await self._learn_limit(broker)
            for queue in self._queues.values():
                if queue.pair is not None:
                    with suppress(ReplicatorError):  # the pair says itself that its broker is away
                        queue.pair.follow(self._source.reader(queue.part.source.broker).address)

    async def _know_limit(self, broker: str) -> None:
        """Returns once a broker was asked for its limit; all its queues ask once."""
        if broker not in self._learning:
            self._learning[broker] = asyncio.create_task(self._learn_limit(broker))
        await asyncio.wait([self._learning[broker]])

    async def _learn_limit(self, broker: str) -> None:
        try:
            self._limits[broker] = (await read_config(self._target.master(broker))).max_message_size
        except ReplicatorError as error:
            log.debug("broker does not tell its limit", broker=broker, reason=str(error))


async def _first(*what: Awaitable[object]) -> None:
    """Returns when one of them has; the others are cancelled."""
    running = [asyncio.ensure_future(each) for each in what]
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in running:
            each.cancel()
