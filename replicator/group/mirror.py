"""The group's shared state on the target cluster: what is left of a group when its source is gone.

Every worker publishes there what it publishes to its group, and a heartbeat. Nobody's lease depends on this log:
leases are held on one log alone, that of the cluster which `coordination` names. So workers that see only the
target can read what the group knows, and tell the others that a connector is to stop, but never copy anything
beside a group that they cannot see.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any, Final, Literal

from replicator.aio.backoff import Backoff
from replicator.aio.clock import now
from replicator.client.topics import TopicConfig
from replicator.errors import ClientError, ProtocolError, ReplicatorError, StartupError
from replicator.group.control_log import LogMessage, MirrorLog, until_read
from replicator.group.freshness import Echo
from replicator.group.inbox import Inbox
from replicator.group.lease_notice import LeaseNotices
from replicator.group.member import Topics
from replicator.group.membership import Heartbeat, Membership, MemberState, Side
from replicator.group.mirror_past import MirrorPast
from replicator.group.other_log import OtherLog, mirror_of, observers_of
from replicator.group.signature import Signer
from replicator.group.start_gate import StartGate
from replicator.group.wire import Author, Envelope, write_heartbeat, write_records
from replicator.observe.logging import get_logger
from replicator.state.record import Kind, Record
from replicator.state.store import Store

__all__ = ["Mirror"]

#: Brokers that each message is written to, if there are as many.
_COPIES: Final = 3
#: Seconds between attempts to open the log: the first, and the most.
_OPEN_FIRST: Final = 0.5
_OPEN_MOST: Final = 15.0
#: Session timeouts without an echo of ours after which nobody can be heard there either.
_DEAF: Final = 4.0
#: Session timeouts after which a heartbeat is too old to have been written by a live worker.
_STALE: Final = 2.0
#: What somebody has to know who fails over without the source: connectors, and which topics they copy to where.
_URGENT: Final = (Kind.CONNECTOR, Kind.TASK)
#: Heartbeats whose sending time is remembered.
_REMEMBERED: Final = 64

_BrokerTopics = Mapping[str, Mapping[str, TopicConfig]]

log = get_logger(__name__)


class Mirror:
    """The part of one worker in it.

    `reason` says why nothing can be written, empty when it can; `flushed_at` is when all was written last, in
    seconds since the epoch; `conflict` is set where living workers of the group hold their leases on the other log.
    `leases` are told of what others say of theirs; `incarnation` is this process, as it is known there.

    Args:
        group: the group's name; groups of other sources may have the same one.
        source: the id of the source cluster.
        coordination: the cluster on which this worker's group holds its leases.
        membership: not the coordinator's, but one for this log alone: the workers that are heard at the target,
            whether the source hears them or not. All are heard on Side.SOURCE: the log has no other side.
        signer: signs and verifies for the group's own log; here it does so for the target.
        on_records: called with news of the shared state, by kind.
        on_change: called when the worker may have to act.
    """

    def __init__(
        self,
        group: str,
        source: str,
        membership: Membership,
        store: Store,
        topics: Topics,
        *,
        signer: Signer,
        coordination: Literal["source", "target"],
        on_records: Callable[[set[Kind]], None],
        on_change: Callable[[], None],
    ) -> None:
        self.membership = membership
        self.reason = ""
        self.flushed_at = 0.0
        self.conflict: StartupError | None = None
        #: Whose records are read and written, whose heartbeats hold leases, and whose do not.
        self._records = group if coordination == "target" else mirror_of(group, source)
        self._group = group
        self._observers = observers_of(group, source)
        self._store = store
        self._topics = topics
        self._me = store.state.worker
        # Its own one: with the group's, counters of two logs would meet in one queue where both are at the target.
        self.incarnation = uuid.uuid4().hex
        self._signer = replace(signer, cluster="target")
        groups = {group, self._records, self._observers}
        patience = _STALE * membership.timeout
        self.inbox = Inbox(groups, self._signer, patience=patience, own=self.incarnation)
        #: For the whole topic, which has messages that were read already.
        self._past_inbox = Inbox((self._records,), self._signer, patience=patience)
        self._author = Author(self._records, self._me, self.incarnation)
        self._counters = itertools.count(1)
        self._echo: tuple[int, Echo] | None = None
        self._coordination = coordination
        self.leases = LeaseNotices(most=membership.timeout)
        self._on_records = on_records
        self._on_change = on_change
        self._log: MirrorLog | None = None
        self._opened = False
        self._beat_failed = False
        self._caught_up = asyncio.Event()
        self._past = MirrorPast(membership.timeout)
        #: Makes the log of the whole control topic; None: there is nothing to read, or it was read.
        self._whole_topic: Callable[[Callable[[], None]], MirrorLog] | None = None
        self._gate = StartGate(membership.timeout)
        #: This worker only stands by: it takes part in no group.
        self.stands_by = False
        self._echoed = asyncio.Event()
        self._listens_since = -inf
        self._sequence = 0
        self._sent: dict[int, float] = {}
        self._unwritten: dict[tuple[Kind, str], None] = {}
        self._flushing = asyncio.Lock()
        self._soon: asyncio.Task[bool] | None = None
        self._others = OtherLog(group, source, membership.timeout, coordination)

    @property
    def writes(self) -> bool:
        """Whether what is published is written there: not where the group's own log carries it there anyway."""
        return self._coordination == "source" or self.stands_by

    def use(self, carrier: MirrorLog, whole_topic: Callable[[Callable[[], None]], MirrorLog] | None = None) -> None:
        """Everything is written to `carrier` from now on, which reads the recent part of each topic.

        Args:
            whole_topic: makes a log that reads all of the control topic, and calls what it is given when it has.
        """
        self._log = carrier
        self._whole_topic = whole_topic

    @property
    def caught_up(self) -> bool:
        """Whether all that stood there has been read, and our own heartbeat after it; or it cannot be had at all.

        Only then may tasks start: a connector may have been stopped there, for a failover. A target that takes
        messages but does not show these is not waited for longer than some session timeouts, nor one that refuses
        us for longer than one.
        """
        recent = self._log is not None and self._log.caught_up and self._log.was_read
        was_read = recent and self._echoed.is_set() and (self._past.is_known or self._whole_topic is None)
        return self._gate.is_open(now(), was_read=was_read)

    @property
    def heard(self) -> bool:
        """Whether our own heartbeats come back, and all is written."""
        fresh = now() - self.membership.echo <= self.membership.timeout
        return fresh and not self._unwritten and not self.reason

    def listened(self) -> tuple[float, float] | None:
        """Since when, and until when, our own heartbeats have come back.

        None: we can write there but do not hear ourselves, or are refused; then silence there proves nothing.
        """
        until = self.membership.echo
        unread = not self._beat_failed and now() - until > _DEAF * self.membership.timeout
        return None if self._gate.is_refused or unread else (self._listens_since, until)

    @property
    def started(self) -> bool:
        """Whether this worker takes part in its group, and gives way to none that coordinates elsewhere."""
        return self.caught_up and self.conflict is None and not self.stands_by

    # Out.

    async def open(self, there: Callable[[], _BrokerTopics]) -> None:
        """Opens the log, as soon as the target lets us.

        Args:
            there: gives the topics of each target broker, by name.
        """
        assert self._log is not None  # noqa: S101 - after use
        self._gate.news(now())
        await self._insist(self._log, there)
        self._opened = True

    async def _insist(self, carrier: MirrorLog, there: Callable[[], _BrokerTopics]) -> None:
        backoff = Backoff(_OPEN_FIRST, _OPEN_MOST)
        while True:
            try:
                return await carrier.open(there())
            except ReplicatorError as error:
                self._fails(error)
                await asyncio.sleep(backoff.next())

    async def read(self, there: _BrokerTopics) -> None:
        """Waits until the recent part was read, and reads the whole topic if that part has nothing of this group.

        A group that was dead for long, while others went on writing to the topic, may have decided something.

        Args:
            there: the topics of each target broker, by name.
        """
        await self._caught_up.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.membership.timeout):
                await self._echoed.wait()
        if not self._past.is_known and self._whole_topic is not None:
            self._gate.news(now())
            caught_up = asyncio.Event()
            whole_topic = self._whole_topic(caught_up.set)
            try:
                await self._insist(whole_topic, lambda: there)
                await until_read(whole_topic, caught_up)
            finally:
                await whole_topic.close()
        self._whole_topic = None
        self._on_change()

    def on_caught_up(self) -> None:
        """All queues of the log that can be read have been read to their ends."""
        self._caught_up.set()
        self._on_change()

    async def refresh(self) -> None:
        """Finds new brokers, and masters that have moved.

        Raises:
            ReplicatorError: the target's name servers do not answer.
        """
        if self._opened and self._log is not None:
            await self._log.refresh()

    def forget(self, broker: str) -> None:
        """No more waiting for the return of a target broker."""
        if self._opened and self._log is not None:
            self._log.forget(broker)

    async def close(self) -> None:
        """Stops reading."""
        if self._soon is not None:
            self._soon.cancel()
        if self._log is not None:
            await self._log.close()

    async def beat(self, info: Mapping[str, Any], stage: MemberState) -> None:
        """Says that this worker is there, and what it runs."""
        if not self._opened or self._log is None:
            return
        self._sequence += 1
        self._sent[self._sequence] = now()
        self._sent.pop(self._sequence - _REMEMBERED, None)
        heartbeat = Heartbeat(
            worker=self._me,
            incarnation=self.incarnation,
            sequence=self._sequence,
            stage=stage,
            info={**info, "coordination": self._coordination},
            echo=None if self._echo is None else self._echo[1],
        )
        observers = self._observers
        try:
            await self._write(self._topics.source_online, observers, write_heartbeat(observers, heartbeat))
        except (ClientError, ProtocolError) as error:
            self._beat_failed = True
            self._fails(error)
        else:
            self._beat_failed = False
            self._gate.written()

    async def _write(self, topic: str, group: str, body: bytes) -> None:
        assert self._log is not None  # noqa: S101 - after use
        await self._log.write(topic, self._signer.sign(topic, group, body), copies=_COPIES)

    def note(self, records: Iterable[Record]) -> None:
        """These are to be written with the next `flush`, as they are then; soon, if a failover needs them."""
        is_urgent = False
        for record in records if self.writes else ():
            if record.kind is not Kind.ASSIGNMENT:  # it means something on the log of the leases alone
                self._unwritten[record.kind, record.key] = None
                is_urgent |= record.kind in _URGENT
        if is_urgent and self._opened and (self._soon is None or self._soon.done()):
            self._soon = asyncio.create_task(self.flush())

    @property
    def is_first(self) -> bool:
        """Whether this worker has the least id of those that are heard there."""
        return self._me <= min(self.membership.others, default=self._me)

    async def write_all(self) -> None:
        """Writes all that this worker knows again, before brokers delete it."""
        self.note(self._store.state.records())
        await self.flush()

    async def flush(self) -> bool:
        """Writes what was noted; False when it cannot be written now, and stays noted."""
        async with self._flushing:
            if not self._opened or self._log is None:
                return False
            taken, self._unwritten = self._unwritten, {}
            records = [record for key in taken if (record := self._store.state.record(*key)) is not None]
            try:
                for body in write_records(self._author, self._counters, records):
                    await self._write(self._topics.control, self._records, body)
            except (ClientError, ProtocolError) as error:
                self._unwritten = taken | self._unwritten
                self._fails(error)
                return False
            if self._beat_failed and not records:
                return True  # nothing shows that it could be written
            self.flushed_at = time.time()
            if self.reason:
                log.info("the group's state is mirrored to the target again")
                self.reason = ""
            return True

    def _fails(self, error: ReplicatorError) -> None:
        if not self.reason:
            log.warning("the group's state cannot be mirrored to the target", reason=str(error))
        self.reason = str(error)
        self._gate.failed(error, now())

    # In.

    def on_said(self, said: LogMessage) -> None:
        """A message of the log; reading goes on whatever is in it."""
        if not self._caught_up.is_set():
            self._gate.news(now())
        self._open(said, self.inbox)

    def on_past(self, said: LogMessage) -> None:
        """A message of the whole control topic."""
        self._gate.news(now())
        self._open(said, self._past_inbox)

    def _open(self, said: LogMessage, inbox: Inbox) -> None:
        try:
            envelope = inbox.open(said)
            if envelope is not None:
                self._take(said, envelope)
        except Exception as error:  # noqa: BLE001 - an error here would end the reader, and nobody would notice
            inbox.fail(said, error)

    def _take(self, said: LogMessage, envelope: Envelope) -> None:
        heartbeat, of_observers = envelope.heartbeat, envelope.group == self._observers
        if heartbeat is None:
            if envelope.group == self._records and (envelope.worker != self._me or not self.caught_up):
                self._learn(said, envelope)
        elif heartbeat.incarnation == self.incarnation:
            self._heard_of_me(said, heartbeat)
        else:
            if of_observers and heartbeat.worker != self._me:  # nor an earlier process of this worker
                self.membership.heard(Side.SOURCE, heartbeat, now(), place=said.queue)
                if heartbeat.info.get("coordination") == self._coordination == "source":
                    self.leases.heard(said, heartbeat)
            self._notice(self._others.heard(said, heartbeat))

    def _learn(self, said: LogMessage, envelope: Envelope) -> None:
        records, skipped = envelope.records()
        for each in skipped:
            self._store.skipped.add("topic", each.key, each.reason)
        if any(record.kind is Kind.CLUSTERS for record in records):
            self._past.published(said.queue.broker, said.stored)
        news: set[Kind] = {
            record.kind for record in records if record.kind is not Kind.ASSIGNMENT and self._store.merge(record)
        }
        if news:
            self._on_records(news)
            self._on_change()

    def _heard_of_me(self, said: LogMessage, heartbeat: Heartbeat) -> None:
        sent = self._sent.get(heartbeat.sequence)
        if sent is None:
            return
        if self._echo is None or heartbeat.sequence > self._echo[0]:
            if sent - self.membership.echo > self.membership.timeout / 2:  # the target was away
                self._listens_since = sent
            self._echo = heartbeat.sequence, Echo(said.queue.broker, said.stored)
        self._past.beaten(said.queue.broker, said.stored)
        self.leases.echoed(said, sent)
        self.membership.echoed(Side.SOURCE, sent)
        self.membership.expire()
        self._notice(self._others.echoed(said))
        if not self._echoed.is_set():
            self._echoed.set()
            self._on_change()

    def _notice(self, conflict: StartupError | None) -> None:
        if conflict is not None and self.conflict is None:
            self.conflict = conflict
            self._on_change()
