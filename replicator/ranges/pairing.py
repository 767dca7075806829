"""Compares a target queue with its source queue in step: is the target's next message what the source sends next?

If it is, nothing more is done. If it is not, the run of source offsets is recorded, so that the caller can compare
its messages one by one.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from replicator.protocol.batch import KEPT_SYS_FLAGS
from replicator.protocol.message import StoredMessage
from replicator.protocol.uniform_run import UniformRun
from replicator.ranges.copies import Copies, Kept, copies_of, own
from replicator.ranges.copy_order import CopyOrder
from replicator.routing import provenance
from replicator.routing.provenance import PREFIX, Stamp
from replicator.routing.queue_map import Queue

__all__ = ["RUN", "Pairing", "Stretch"]

#: Source offsets that are compared in detail together.
RUN: Final = 4096
#: Stretches that are recorded for one run.
_STRETCHES: Final = 64
#: Bytes of a batch that is not sent.
_UNLIMITED: Final = 2**62

_pack = struct.Struct(">IiIi").pack


@dataclass(slots=True)
class Stretch:
    """Target offsets [start, end); `highest` is the highest source offset among the copies before them."""

    start: int
    end: int
    highest: int


class Pairing:
    """Takes the target's messages in their order.

    `differing` are the runs that differ. The copies of each run are in its `stretches`, which may contain others
    too. `selected` counts messages of the source, `copies` those of the target; `first` and `highest` are the
    lowest and the highest source offset that have been copied; `order` knows which copies are out of order.

    A copy proves nothing of how far a queue was copied unless it names its message's store time: what it says may
    be forged, or of a topic that was recreated.

    Args:
        queue: the queue of `cluster` from which the messages come.
        source: the messages that a route copies, in order, from offset `begin` on; read only as far as needed.
        stored_at: when the source stored the message at an offset; None if it has none that a route copies.
        start, end: source offsets; copies of messages before `start`, or from `end` on, are not compared.
    """

    def __init__(
        self,
        cluster: str,
        queue: Queue,
        source: AsyncIterator[Sequence[StoredMessage]],
        stored_at: Callable[[int], Awaitable[int | None]],
        *,
        start: int,
        begin: int,
        end: int | None = None,
        topic: str,
    ) -> None:
        self.differing: set[int] = set()
        self.stretches: dict[int, list[Stretch]] = {}
        self.selected = 0
        self.copies = 0
        self.first: int | None = None
        self.highest = -1
        self.order = CopyOrder()
        self._cluster = cluster
        self._queue = queue
        self._topic = topic
        self._start = start
        self._end = end
        self._source = source
        self._stored_at = stored_at
        self._stamp = Stamp(cluster, *queue)
        self._run = -1
        self._ahead: list[StoredMessage] = []
        self._at = 0
        #: What was read ahead and comes after these, if it is a run.
        self._next_run: Sequence[StoredMessage] | None = None
        #: The source's messages before this offset were taken or missed; the last of them was at `_before`.
        self._passed = begin
        self._before: int | None = None
        self._tails: set[bytes] = set()
        self._digest: Any = hashlib.sha256()
        self._target_digest: Any = None

    @property
    def digests(self) -> tuple[str, str]:
        """Digests of the source's messages and of the copies, each in 16 hexadecimal digits.

        They cover offsets, store times, origins, flags, own properties and checksums of bodies.
        """
        source, target = self._digest, self._target_digest or self._digest
        return source.hexdigest()[:16], target.hexdigest()[:16]

    async def take(self, messages: Sequence[StoredMessage]) -> Copies:
        """Compares the target's next messages; returns those that were compared one by one."""
        found = Copies([], [], [])
        while isinstance(messages, UniformRun):
            held = len(self._ahead) - self._at
            if not held:
                left = await self._take_run(messages)
                if left is not messages:
                    messages = left
                    continue
                held = len(self._ahead) - self._at
            if not 0 < held < len(messages):
                break
            part, messages = messages.split(held)  # behind it both sides may be equal again
            found = found.and_those_of(await self._take_some(part))
        return found.and_those_of(await self._take_some(messages)) if messages else found

    async def _take_run(self, copies: Sequence[StoredMessage]) -> Sequence[StoredMessage]:
        """Compares the source's next messages with as many of `copies`, all at once; returns those that are left.

        These are all of them where some differ: nothing is taken then, and the source's messages are held.
        """
        run = self._next_run or await anext(self._source, None)
        self._next_run = None
        if run is None:
            return copies
        count = min(len(run), len(copies))
        (same, left), (wanted, later) = _cut(copies, count), _cut(run, count)
        if not self._take_equal(same, wanted):
            self._ahead, self._at = [*run], 0
            return copies
        self._next_run = later or None
        return left

    def _take_equal(self, copies: Sequence[StoredMessage], wanted: Sequence[StoredMessage]) -> bool:
        """Takes them if they are runs, and each copy is what is sent for its message; whether it did."""
        if not (isinstance(copies, UniformRun) and isinstance(wanted, UniformRun)) or wanted.mention(PREFIX):
            return False
        made = wanted.entries(self._stamp.lead, more=0, limit=_UNLIMITED)
        if made is None or made[0] != copies.sent() or (records := wanted.records(made[0])) is None:
            return False
        if (copies.sys_flag, copies.reconsume_times) != (wanted.sys_flag, wanted.reconsume_times):
            return False
        self._take_next(wanted.offset, copies.offset, len(wanted))
        self._both(records)
        return True

    def _take_next(self, offset: int, place: int, count: int) -> None:
        """Takes copies at `place` and the places behind it, of messages at `offset` and the offsets behind it."""
        end = offset + count
        self.order.add((offset, end - 1), (place, place + count - 1), count=count, before=self._before)
        self.selected += count
        self.copies += count
        for first in (offset, *range((offset // RUN + 1) * RUN, end, RUN)):
            last = min(end, (first // RUN + 1) * RUN) - 1
            self._lies(first // RUN, place + first - offset, place + last - offset)
            self._reached(first)
            self._reached(last)
        self._before, self._passed = end - 1, end

    async def _take_some(self, messages: Sequence[StoredMessage]) -> Copies:
        """As `take`, message by message."""
        await self._read_ahead(len(messages))
        wanted = self._ahead[self._at : self._at + len(messages)]
        if len(wanted) == len(messages):
            stamped = self._stamped(wanted)
            if self._are(messages, wanted, stamped):
                self._take_all(messages, wanted, stamped)
                return Copies([], [], [])
        found = copies_of(self._cluster, self._queue, messages, start=self._start, end=self._end, topic=self._topic)
        for copy, offset in zip(found.messages, found.offsets, strict=True):
            await self._take_one(copy, offset)
        return found

    async def finish(self, end: int) -> None:
        """Counts the source's remaining messages before `end` as missing, and decides what is out of order."""
        await self._miss_before(end)
        for low, high in self.order.decide():
            self.differing.update(range(low // RUN, high // RUN + 1))

    def miss(self, message: StoredMessage) -> None:
        """Counts a message that the target does not have, or not in its place."""
        self.selected += 1
        self.differing.add(message.queue_offset // RUN)
        self._part()
        self._digest.update(self._record(message))

    async def _read_ahead(self, count: int) -> None:
        """Reads ahead until `count` of the source's messages are ready, or it has no more."""
        while len(self._ahead) - self._at < count:
            more = self._next_run or await anext(self._source, None)
            if more is None:
                return
            self._next_run = None
            self._ahead = [*self._ahead[self._at :], *more]
            self._at = 0

    async def _miss_before(self, offset: int) -> StoredMessage | None:
        """Counts the source's next messages before `offset` as missing; returns the one after them."""
        while True:
            await self._read_ahead(1)
            message = self._ahead[self._at] if self._at < len(self._ahead) else None
            if message is None or message.queue_offset >= offset:
                return message
            self.miss(message)
            self._pass(message)

    def _pass(self, message: StoredMessage) -> None:
        """Moves on behind the source's next message."""
        self._at += 1
        self._before = message.queue_offset
        self._passed = message.queue_offset + 1

    async def _names_its_message(self, copy: StoredMessage, offset: int) -> bool:
        """Whether the source has a message at `offset` that was stored when `copy` says; taken as read if it has
        been passed.
        """
        if offset < self._passed:
            return True
        await self._read_ahead(1)
        at = bisect_left(self._ahead, offset, lo=self._at, key=attrgetter("queue_offset"))
        if at < len(self._ahead):
            message = self._ahead[at]
            stored = message.store_timestamp if message.queue_offset == offset else None
        else:
            stored = await self._stored_at(offset)
        named = provenance.read(copy.properties)
        return named is not None and named.stored == stored

    def _record(self, message: StoredMessage) -> bytes:
        return _record(message, *self._stamped([message]))

    def _stamped(self, messages: Sequence[StoredMessage]) -> list[bytes]:
        """The properties that are sent with `messages`."""
        copies = PREFIX in b"".join([message.properties for message in messages])
        return (self._stamp.renew if copies else self._stamp.put)(messages)

    def _are(
        self, copies: Sequence[StoredMessage], wanted: Sequence[StoredMessage], stamped: Sequence[bytes]
    ) -> bool:
        """Whether each of `copies` is what is sent for its message; brokers may have appended properties."""
        tails = self._tails
        for copy, message, raw in zip(copies, wanted, stamped, strict=True):
            properties = copy.properties
            if (
                not properties.startswith(raw)
                or copy.body != message.body
                or copy.flag != message.flag
                or copy.reconsume_times != message.reconsume_times
                or (copy.sys_flag ^ message.sys_flag) & KEPT_SYS_FLAGS
            ):
                return False
            tail = properties[len(raw) :]
            if tail not in tails:
                if own(tail):
                    return False
                tails.add(tail)
        return True

    def _take_all(
        self, copies: Sequence[StoredMessage], wanted: Sequence[StoredMessage], stamped: Sequence[bytes]
    ) -> None:
        first, last = wanted[0].queue_offset, wanted[-1].queue_offset
        places = copies[0].queue_offset, copies[-1].queue_offset
        self.order.add((first, last), places, count=len(copies), before=self._before)
        self._at += len(wanted) - 1
        self._pass(wanted[-1])
        self.selected += len(wanted)
        self.copies += len(copies)
        if first // RUN == last // RUN:
            self._lies(first // RUN, *places)
            self._reached(first)
            self._reached(last)
        else:
            for copy, message in zip(copies, wanted, strict=True):
                self._lies(message.queue_offset // RUN, copy.queue_offset, copy.queue_offset)
                self._reached(message.queue_offset)
        self._both(b"".join(map(_record, wanted, stamped)))

    async def _take_one(self, copy: StoredMessage, offset: int) -> None:
        self.copies += 1
        place = copy.queue_offset
        self._lies(offset // RUN, place, place)
        if not await self._names_its_message(copy, offset):
            self._differs(copy, offset)
            return
        self._reached(offset)
        message = await self._miss_before(offset)
        if message is None or message.queue_offset > offset:
            self.order.add((offset, offset), (place, place))
            self._differs(copy, offset)
            return
        self.order.add((offset, offset), (place, place), before=self._before)
        self._pass(message)
        if any(Kept.of_source(message, self._cluster, topic=self._topic).changes(Kept.of_copy(copy))):
            self._differs(copy, offset)
            self._digest.update(self._record(message))
        else:
            self._both(self._record(message))
        self.selected += 1

    def _reached(self, offset: int) -> None:
        self.highest = max(self.highest, offset)
        self.first = offset if self.first is None else min(self.first, offset)

    def _lies(self, run: int, first: int, last: int) -> None:
        """Records the next copies of `run`, at target offsets `first` to `last`; `highest` is not updated yet."""
        stretches = self.stretches.setdefault(run, [])
        if stretches and (run == self._run or len(stretches) == _STRETCHES):
            stretches[-1].end = last + 1  # the last of many also covers what is between: memory stays bounded
        else:
            stretches.append(Stretch(first, last + 1, self.highest))
        self._run = run

    def _differs(self, copy: StoredMessage, offset: int) -> None:
        self.differing.add(offset // RUN)
        self._part()
        self._target_digest.update(_record(copy, copy.properties))

    def _both(self, record: bytes) -> None:
        self._digest.update(record)
        if self._target_digest is not None:
            self._target_digest.update(record)

    def _part(self) -> None:
        """From here on the two digests differ."""
        if self._target_digest is None:
            self._target_digest = self._digest.copy()


def _cut(messages: Sequence[StoredMessage], count: int) -> tuple[Sequence[StoredMessage], Sequence[StoredMessage]]:
    """The first `count` of `messages`, and the others; a run is not cut into messages for that."""
    if count == len(messages):
        return messages, ()
    if isinstance(messages, UniformRun):
        return messages.split(count)
    return messages[:count], messages[count:]


def _record(message: StoredMessage, stamped: bytes) -> bytes:
    head = _pack(message.body_crc, message.flag, message.sys_flag & KEPT_SYS_FLAGS, message.reconsume_times)
    return stamped + head
