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
from dataclasses import replace
from math import inf
from typing import Any, Final, Literal, Protocol

from replicator.aio.backoff import Backoff
from replicator.aio.clock import now
from replicator.client.topics import TopicConfig
from replicator.errors import BrokerRefused, ClientError, ProtocolError, ReplicatorError, StartupError
from replicator.group.control_log import LogMessage
from replicator.group.freshness import Echo
from replicator.group.inbox import Inbox
from replicator.group.member import Topics
from replicator.group.membership import Heartbeat, Membership, MemberState, Side
from replicator.group.other_log import OtherLog, observers_of
from replicator.group.signature import Signer
from replicator.group.wire import Author, Envelope, write_heartbeat, write_records
from replicator.observe.logging import get_logger
from replicator.state.record import Kind, Record
from replicator.state.store import Store

__all__ = ["Mirror", "MirrorLog"]

#: Brokers that each message is written to, if there are as many.
_COPIES: Final = 3
#: Seconds between attempts to open the log: the first, and the most.
_OPEN_FIRST: Final = 0.5
_OPEN_MOST: Final = 15.0
#: Session timeouts after which tasks start although the target does not show what is mirrored there.
_PATIENCE: Final = 4.0
#: Session timeouts after which a heartbeat is too old to have been written by a live worker.
_STALE: Final = 2.0
#: Heartbeats whose sending time is remembered.
_REMEMBERED: Final = 64

log = get_logger(__name__)


class MirrorLog(Protocol):
    """What carries it: a `ControlLog` on the target."""

    @property
    def was_read(self) -> bool: ...

    async def open(self, there: Mapping[str, Mapping[str, TopicConfig]]) -> None: ...

    async def refresh(self) -> None: ...

    async def close(self) -> None: ...

    async def write(self, topic: str, body: bytes, *, copies: int = 1) -> None: ...


class Mirror:
    """The part of one worker in it.

    `reason` says why nothing can be written, empty when it can; `flushed_at` is when all was written last, in
    seconds since the epoch; `conflict` is set where living workers of the group hold their leases on the other log.

    Args:
        coordination: the cluster on which this worker's group holds its leases.
        writes: whether what is published is written there; not where the group's own log carries it there anyway.
        membership: is told of the workers that are heard there.
        signer: signs and verifies for the group's own log; here it does so for the target.
        on_records: called with news of the shared state, by kind.
        on_change: called when the worker may have to act.
    """

    def __init__(
        self,
        group: str,
        membership: Membership,
        store: Store,
        topics: Topics,
        *,
        signer: Signer,
        coordination: Literal["source", "target"],
        writes: bool,
        on_records: Callable[[set[Kind]], None],
        on_change: Callable[[], None],
    ) -> None:
        self.membership = membership
        self.reason = ""
        self.flushed_at = 0.0
        self.conflict: StartupError | None = None
        self._group = group
        self._store = store
        self._topics = topics
        self._me = store.state.worker
        # Its own one: with the group's, counters of two logs would meet in one queue where both are at the target.
        self._incarnation = uuid.uuid4().hex
        self._signer = replace(signer, cluster="target")
        self.inbox = Inbox((group, observers_of(group)), self._signer, patience=_STALE * membership.timeout)
        self._author = Author(group, self._me, self._incarnation)
        self._counters = itertools.count(1)
        self._echo: tuple[int, Echo] | None = None
        self._coordination = coordination
        self.writes = writes
        self._on_records = on_records
        self._on_change = on_change
        self._log: MirrorLog | None = None
        self._opened = False
        self._opened_at = inf
        self._refused = False
        self._echoed = False
        self._sequence = 0
        self._sent: dict[int, float] = {}
        self._unwritten: dict[tuple[Kind, str], None] = {}
        self._flushing = asyncio.Lock()
        self._others = OtherLog(group, membership.timeout, coordination)

    def use(self, carrier: MirrorLog) -> None:
        """Everything is written to `carrier` from now on."""
        self._log = carrier

    @property
    def settled(self) -> bool:
        """Whether all that stood there has been read, and our own heartbeat after it; or it cannot be had at all.

        Only then may tasks start: a connector may have been stopped there, for a failover. A target that takes
        messages but does not show these is not waited for longer than some session timeouts.
        """
        if self._refused or (self._echoed and self._log is not None and self._log.was_read):
            return True
        return now() - self._opened_at > _PATIENCE * self.membership.timeout

    # Out.

    async def open(self, there: Callable[[], Mapping[str, Mapping[str, TopicConfig]]]) -> None:
        """Opens the log, as soon as the target lets us.

        Args:
            there: gives the topics of each target broker, by name.
        """
        assert self._log is not None  # noqa: S101 - after use
        backoff = Backoff(_OPEN_FIRST, _OPEN_MOST)
        while not self._opened:
            try:
                await self._log.open(there())
            except ReplicatorError as error:
                self._fails(error)
                await asyncio.sleep(backoff.next())
            else:
                self._opened, self._opened_at = True, now()

    async def refresh(self) -> None:
        """Finds new brokers, and masters that have moved.

        Raises:
            ReplicatorError: the target's name servers do not answer.
        """
        if self._opened and self._log is not None:
            await self._log.refresh()

    async def close(self) -> None:
        """Stops reading."""
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
            incarnation=self._incarnation,
            sequence=self._sequence,
            stage=stage,
            info={**info, "coordination": self._coordination},
            echo=None if self._echo is None else self._echo[1],
        )
        observers = observers_of(self._group)
        try:
            await self._write(self._topics.source_online, observers, write_heartbeat(observers, heartbeat))
        except (ClientError, ProtocolError) as error:
            self._fails(error)

    async def _write(self, topic: str, group: str, body: bytes) -> None:
        assert self._log is not None  # noqa: S101 - after use
        await self._log.write(topic, self._signer.sign(topic, group, body), copies=_COPIES)

    def note(self, records: Iterable[Record]) -> None:
        """These are to be written with the next `flush`, as they are then."""
        for record in records if self.writes else ():
            if record.kind is not Kind.ASSIGNMENT:  # it means something on the log of the leases alone
                self._unwritten[record.kind, record.key] = None

    async def flush(self) -> bool:
        """Writes what was noted; False when it cannot be written now, and stays noted."""
        async with self._flushing:
            if not self._opened or self._log is None:
                return False
            taken, self._unwritten = self._unwritten, {}
            records = [record for key in taken if (record := self._store.state.record(*key)) is not None]
            try:
                for body in write_records(self._author, self._counters, records):
                    await self._write(self._topics.control, self._group, body)
            except (ClientError, ProtocolError) as error:
                self._unwritten = taken | self._unwritten
                self._fails(error)
                return False
            self.flushed_at = time.time()
            if self.reason:
                log.info("the group's state is mirrored to the target again")
                self.reason = ""
            return True

    def _fails(self, error: ReplicatorError) -> None:
        if not self.reason:
            log.warning("the group's state cannot be mirrored to the target", reason=str(error))
        self.reason = str(error)
        if isinstance(error, BrokerRefused) or isinstance(error.__cause__, BrokerRefused):
            self._refused = True
            self._on_change()

    # In.

    def on_said(self, said: LogMessage) -> None:
        """A message of the log; reading goes on whatever is in it."""
        try:
            envelope = self.inbox.open(said)
            if envelope is not None:
                self._take(said, envelope)
        except Exception as error:  # noqa: BLE001 - an error here would end the reader, and nobody would notice
            self.inbox.fail(said, error)

    def _take(self, said: LogMessage, envelope: Envelope) -> None:
        heartbeat, of_observers = envelope.heartbeat, envelope.group == observers_of(self._group)
        if heartbeat is None:
            if not of_observers and (envelope.worker != self._me or not self.settled):
                self._learn(envelope)
        elif heartbeat.worker == self._me:
            if of_observers:
                self._heard_of_me(said, heartbeat)
        else:
            if of_observers:
                self.membership.heard(Side.SOURCE, heartbeat, now(), place=said.queue)
            self._notice(self._others.heard(said, heartbeat))

    def _learn(self, envelope: Envelope) -> None:
        records, skipped = envelope.records()
        for each in skipped:
            self._store.skipped.add("topic", each.key, each.reason)
        news: set[Kind] = {
            record.kind for record in records if record.kind is not Kind.ASSIGNMENT and self._store.merge(record)
        }
        if news:
            self._on_records(news)
            self._on_change()

    def _heard_of_me(self, said: LogMessage, heartbeat: Heartbeat) -> None:
        sent = self._sent.get(heartbeat.sequence)
        if heartbeat.incarnation != self._incarnation or sent is None:
            return
        if self._echo is None or heartbeat.sequence > self._echo[0]:
            self._echo = heartbeat.sequence, Echo(said.queue.broker, said.stored)
        self.membership.echoed(Side.SOURCE, sent)
        self.membership.expire()
        self._notice(self._others.echoed(said))
        if not self._echoed:
            self._echoed = True
            self._on_change()

    def _notice(self, conflict: StartupError | None) -> None:
        if conflict is not None and self.conflict is None:
            self.conflict = conflict
            self._on_change()
