"""A worker's place in its group: heartbeats out and in, records out and in, and when it has joined."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final, Protocol

from replicator.aio.clock import now
from replicator.errors import ClientError, ProtocolError, StartupError
from replicator.group.control_log import LogMessage
from replicator.group.coordinator import Assignment, Coordinator
from replicator.group.freshness import Echo
from replicator.group.inbox import Inbox
from replicator.group.job_claim import jobs_of
from replicator.group.membership import Generation, Heartbeat, MemberState, Side
from replicator.group.signature import Signer
from replicator.group.wire import Author, Envelope, write_heartbeat, write_records
from replicator.observe.logging import get_logger
from replicator.observe.reminder import Reminder
from replicator.routing.message_queue import MessageQueue
from replicator.state.record import Kind, Record, Version
from replicator.state.store import Store

__all__ = ["Group", "Log", "Topics", "clock_skew", "now"]

#: Brokers that heartbeats and assignments are written to, if there are as many.
_COPIES: Final = 3
#: Heartbeats of our own, the newest one included, that are to come back where a process with our id was heard
#: before them, until we believe that it has ended.
_AFTER_NAMESAKE: Final = 3
#: Session timeouts after which a heartbeat is no longer believed to be of a live worker: a worker holds its lease
#: for less than one after the echo that each of its heartbeats names.
_STALE: Final = 2.0
#: Heartbeats whose sending time is remembered.
_REMEMBERED: Final = 256

log = get_logger(__name__)


def clock_skew(sent: float, stored: float, received: float) -> float:
    """Seconds that a broker's clock is ahead of ours, at least: 0 if it may be right.

    Args:
        sent, received: seconds by our clock, when a message left and came back.
        stored: seconds by the broker's, in between.
    """
    return stored - received if stored > received else min(0.0, stored - sent)


@dataclass(frozen=True, slots=True)
class Topics:
    """The names of the system topics."""

    source_online: str
    sink_online: str
    control: str

    def side(self, topic: str) -> Side:
        return Side.SINK if topic == self.sink_online else Side.SOURCE


class Log(Protocol):
    """What carries heartbeats and records: `ControlLog`, or nothing but this process."""

    @property
    def caught_up(self) -> bool: ...

    async def write(self, topic: str, body: bytes, *, copies: int = 1) -> None: ...


class Group:
    """Worker `coordinator.me` in the group `name`.

    `skews` are the seconds that the clocks of source brokers are ahead of ours, by their names; empty where the log
    is at the target. `incarnation` is this process; `waiting_for` is the job whose end we wait for before we join,
    empty if there is none.

    Args:
        signer: signs what is written, and verifies what is read.
        waits_for: whether a job that says this of itself copies queues of ours, so that we join after its end.
        on_change: called when something was received that the worker may have to act on.
        on_records: called with news of the shared state, by kind.
        on_lost: called when the topic of the shared state has lost all that was in it.
    """

    def __init__(
        self,
        name: str,
        coordinator: Coordinator,
        store: Store,
        topics: Topics,
        *,
        signer: Signer,
        waits_for: Callable[[Mapping[str, Any]], bool],
        on_change: Callable[[], None],
        on_records: Callable[[set[Kind]], None],
        on_lost: Callable[[], None],
    ) -> None:
        self.name = name
        self.coordinator = coordinator
        self.joined = asyncio.Event()
        self.conflict: StartupError | None = None
        self.skews: dict[str, float] = {}
        self.waiting_for = ""
        self.store = store
        self.signer = signer
        self.incarnation = uuid.uuid4().hex
        patience = _STALE * coordinator.membership.timeout
        self.inbox = Inbox((name, jobs_of(name)), signer, patience=patience, own=self.incarnation)
        self._topics = topics
        self._waits_for = waits_for
        self._on_change = on_change
        self._on_records = on_records
        self._on_lost = on_lost
        #: Called with what is about to be published.
        self.on_publish: Callable[[list[Record]], None] = lambda _: None
        self._log: Log | None = None
        self._author = Author(name, coordinator.me, self.incarnation)
        self._counters = itertools.count(1)
        #: Whether a worker with our secret has copied, as the log says: positions are in it.
        self._has_copied = False
        self._gave_way = False
        self._publishing = asyncio.Lock()
        self._sequence = 0
        self._echo: tuple[int, Echo] | None = None
        self._sent: dict[int, float] = {}
        self._said: object = None
        self._early: dict[MessageQueue, list[tuple[Heartbeat, int]]] = {}
        self._clock: dict[MessageQueue, float] = {}
        self._failing = False
        self._reminder = Reminder()
        #: Until we have joined, the last heartbeat of each job of this group, with where and when it was stored.
        self._jobs: dict[str, tuple[Heartbeat, MessageQueue, int]] = {}
        #: When processes with our id were heard that may have been there before us, or took our place meanwhile.
        self._before: dict[str, float] = {}
        self._believed = 1

    def use(self, carrier: Log) -> None:
        """Everything is written to `carrier` from now on."""
        self._log = carrier

    # Out.

    @property
    def last_said(self) -> Heartbeat:
        """As the last heartbeat, with what is true now."""
        return self.coordinator.heartbeat(self.incarnation, self._sequence, {})

    async def beat(self, info: Mapping[str, Any], *, target_reachable: bool) -> None:
        """Says that we are there: on the sink side only if the target can be reached."""
        self._sequence += 1
        heartbeat = replace(
            self.coordinator.heartbeat(self.incarnation, self._sequence, info),
            echo=None if self._echo is None else self._echo[1],
        )
        self._said = _gist(heartbeat)
        self._sent[self._sequence] = now()
        self._sent.pop(self._sequence - _REMEMBERED, None)
        body = write_heartbeat(self.name, heartbeat)
        log.debug("heartbeat", sequence=self._sequence, stage=heartbeat.stage, target_reachable=target_reachable)
        topics = [self._topics.source_online] + [self._topics.sink_online] * target_reachable
        try:
            await asyncio.gather(*(self._write(topic, body) for topic in topics))
        except (ClientError, ProtocolError) as error:
            if not self._failing:
                log.warning("heartbeat not written", reason=str(error))
            self._failing = True
            return
        if self._failing:
            self._failing = False
            await self.publish()  # what could not be published meanwhile, before others start without it

    async def _write(self, topic: str, body: bytes) -> None:
        assert self._log is not None  # noqa: S101 - after use
        await self._log.write(topic, self.signer.sign(topic, self.name, body), copies=_COPIES)

    @property
    def unsaid(self) -> bool:
        """Whether the next heartbeat says something new, and should not wait."""
        return _gist(self.coordinator.heartbeat(self.incarnation, 0, {})) != self._said

    async def publish(self, records: Iterable[Record] | None = None) -> bool:
        """Publishes our own changes, or `records`; False when they could not be written.

        What could not be written stays to be published. When it has returned True, all that was changed before the
        call is published.
        """
        async with self._publishing:
            return await self._publish(records)

    async def _publish(self, records: Iterable[Record] | None) -> bool:
        taken = self.store.take_unpublished() if records is None else list(records)
        vouches = self._has_copied or (self.joined.is_set() and not self.is_split)
        if not vouches:  # positions of our state file may be those of a group with another secret
            taken, kept = _but_positions(taken)
            self.store.untake(kept)
        self.on_publish(taken)
        try:
            for body in write_records(self._author, self._counters, taken):
                await self._write(self._topics.control, body)
        except (ClientError, ProtocolError) as error:
            if records is None:
                self.store.untake(taken)
            if self._reminder.is_due(str(error)):
                log.warning("shared state not published", reason=str(error))
            return False
        if self._reminder.over():
            log.info("shared state is published again")
        self._has_copied |= any(record.kind is Kind.POSITION for record in taken)
        return True

    async def publish_all(self) -> None:
        """Publishes all that we know, for workers that come new; well before brokers delete it."""
        await self.publish(self.store.state.records())

    def assign(self, assignment: Assignment) -> None:
        """Stores our assignment; `publish` sends it to the group."""
        owners = dict(sorted(assignment.owners.items()))
        value = {"members": sorted(assignment.members), "owners": owners}
        self.store.put_version(Kind.ASSIGNMENT, "", Version(*assignment.generation), value)

    # In.

    def on_said(self, said: LogMessage) -> None:
        """A message of the log; reading goes on whatever is in it."""
        try:
            envelope = self.inbox.open(said)
            if envelope is not None:
                self._take(said, envelope)
            self._gave_way |= not self._has_copied and self.inbox.lives_beside_others
        except Exception as error:  # noqa: BLE001 - an error here would end the reader, and nobody would notice
            self.inbox.fail(said, error)

    def _take(self, said: LogMessage, envelope: Envelope) -> None:
        if envelope.group == jobs_of(self.name) and envelope.heartbeat is not None and not self.joined.is_set():
            self._jobs[envelope.heartbeat.incarnation] = envelope.heartbeat, said.queue, said.stored
        if envelope.group != self.name:
            return
        if envelope.heartbeat is not None:
            self._heard(said, envelope.heartbeat)
        elif envelope.worker != self.coordinator.me or not self.joined.is_set():
            self._learn(envelope)
        self._on_change()

    def _learn(self, envelope: Envelope) -> None:
        records, skipped = envelope.records()
        for each in skipped:
            self.store.skipped.add("topic", each.key, each.reason)
        self._has_copied |= any(record.kind is Kind.POSITION for record in records)
        news = {record.kind for record in records if self.store.merge(record)}
        if Kind.ASSIGNMENT in news:
            self.recall()
        if news:
            self._on_records(news)

    def recall(self) -> None:
        """Adopts what the store knows of assignments."""
        record = self.store.state.record(Kind.ASSIGNMENT, "")
        if record is None or record.value is None:
            return
        self.coordinator.adopt(
            Assignment(
                generation=Generation(*record.version),
                members=frozenset(record.value["members"]),
                owners=record.value["owners"],
            )
        )

    def _heard(self, said: LogMessage, heartbeat: Heartbeat) -> None:
        side = self._topics.side(said.queue.topic)
        if heartbeat.worker == self.coordinator.me:
            self._heard_of_me(said, side, heartbeat)
        elif said.queue in self._clock or self.joined.is_set():
            self.coordinator.membership.heard(side, heartbeat, now(), place=said.queue)
        else:
            self._early.setdefault(said.queue, []).append((heartbeat, said.stored))

    def _heard_of_me(self, said: LogMessage, side: Side, heartbeat: Heartbeat) -> None:
        if heartbeat.incarnation != self.incarnation:
            self._heard_of_namesake(said, heartbeat)
            return
        sent = self._sent.get(heartbeat.sequence)
        if sent is None:
            return
        self._clock.setdefault(said.queue, sent - said.stored / 1000)
        if self._echo is None or heartbeat.sequence > self._echo[0]:
            self._echo = heartbeat.sequence, Echo(said.queue.broker, said.stored)
        if self.signer.cluster == "source":  # a target broker may have the same name as one of the source
            received = time.time()
            sent_at = received - (now() - sent)
            self.skews[said.queue.broker] = clock_skew(sent_at, said.stored / 1000, received)
        self._hear_early(said.queue)
        if heartbeat.sequence < self._believed:
            return
        self.coordinator.echoed(side, heartbeat, sent, now())
        self.join()

    def _heard_of_namesake(self, said: LogMessage, heartbeat: Heartbeat) -> None:
        """Another process has our id: one that was there before us, unless it has ended, or one that came later.

        Who has lost the lease is as one that has just come: that process may have taken the place meanwhile.
        """
        silent = now() - self._before.get(heartbeat.incarnation, -inf)
        known = silent <= self.coordinator.membership.timeout  # or else it has lost its lease, and gives way
        joining = not self.joined.is_set() and said.queue not in self._clock
        lapsed = self.joined.is_set() and not self.coordinator.holds_lease(now())
        if heartbeat.stage is MemberState.LEFT:
            self._before.pop(heartbeat.incarnation, None)
        elif not known and (joining or lapsed):
            self._before[heartbeat.incarnation] = now()
            self._believed = max(self._sequence, 1) + _AFTER_NAMESAKE - 1
            self._clock.clear()
        elif known and said.queue in self._clock and heartbeat.echo is not None:
            where = heartbeat.info.get("rest", "an unknown address")
            self.conflict = StartupError(
                f"worker_id = {self.coordinator.me!r} is used by another worker of group {self.name!r} at {where}",
                hint="give every worker an id of its own, or none at all",
            )

    @property
    def may_have_namesake(self) -> bool:
        """Whether a process with our id was heard lately, or what others have said is not read yet."""
        timeout = self.coordinator.membership.timeout
        heard = any(now() - at <= timeout for at in self._before.values())
        return heard or self._log is None or not self._log.caught_up

    @property
    def is_split(self) -> bool:
        """Whether nothing is to be copied here, since workers that sign otherwise copy the same.

        Two groups that believe each other's copies make each message twice, so who believes unsigned ones gives way
        to them. Of two others who comes later gives way: whose secret no worker has copied with, as far as the log
        says. Anybody who may write to the system topics can sound like another worker, but nobody can take from the
        log what a group with its secret has written there, so no group that copies is stopped by that. Who has
        given way goes on when it is restarted: how far the others have come is not known here.
        """
        if self.signer.accepts_unsigned:
            return self.inbox.hears_other_secret
        return self._gave_way or (self.inbox.hears_other_secret and not self._has_copied)

    def join(self) -> None:
        """Joins the group, if our own heartbeat has come back and all earlier records have been read.

        If a process with our id may still be alive, not before its next heartbeat would have been received.
        """
        heard = self.coordinator.membership.echo > -inf
        ready = heard and self._log is not None and self._log.caught_up
        if not ready or self.joined.is_set():
            return
        job = self._to_wait_for()
        if job and job != self.waiting_for:
            log.warning("a job copies queues of this group; waiting for it to end", job=job)
        elif self.waiting_for and not job:
            log.info("the job has ended, joining the group", job=self.waiting_for)
        self.waiting_for = job
        if not job:
            for queue in list(self._early):
                self._hear_early(queue)
            self.joined.set()

    def _to_wait_for(self) -> str:
        """A job that gave a heartbeat within a session timeout and copies queues of ours; empty: there is none."""
        for heartbeat, queue, stored in self._jobs.values():
            silent = now() - (stored / 1000 + self._clock[queue]) if queue in self._clock else 0.0
            alive = heartbeat.stage is not MemberState.LEFT and silent <= self.coordinator.membership.timeout
            if alive and self._waits_for(heartbeat.info):
                return heartbeat.worker
        return ""

    def _hear_early(self, queue: MessageQueue) -> None:
        """What was stored before we came counts from when it was stored, by the broker's clock and ours."""
        for heartbeat, stored in self._early.pop(queue, ()):
            at = stored / 1000 + self._clock[queue] if queue in self._clock else now()
            side = self._topics.side(queue.topic)
            self.coordinator.membership.heard(side, heartbeat, min(at, now()), place=queue)

    def on_reset(self, queue: MessageQueue) -> None:
        """A system topic has lost all that was in it: every worker publishes again what it knows."""
        if queue.topic == self._topics.control:
            self._on_lost()


def _gist(heartbeat: Heartbeat) -> object:
    return heartbeat.generation, heartbeat.releasing, heartbeat.stage


def _but_positions(records: Iterable[Record]) -> tuple[list[Record], list[Record]]:
    """Those that say nothing of how far was copied, and the others."""
    found: tuple[list[Record], list[Record]] = ([], [])
    for record in records:
        found[record.kind is Kind.POSITION].append(record)
    return found
