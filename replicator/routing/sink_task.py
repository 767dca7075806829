"""The sink task of one queue: batches from the channel to the target, one in flight, each accounted for.

What it cannot resolve itself ends it with an exception from `faults`; the pair of tasks is then
rebuilt from what the target really has.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Final

from replicator.aio.backoff import Backoff
from replicator.aio.clock import now
from replicator.client.connection import Connection
from replicator.client.endpoint import Endpoint
from replicator.client.line_turn import crossing
from replicator.client.pull import GROUP
from replicator.client.send import Stored, send_batch, send_single
from replicator.client.system_topics import DEAD_LETTER_PREFIX, RETRY_PREFIX
from replicator.observe.logging import get_logger
from replicator.protocol import properties
from replicator.protocol.batch import entry, extended, header_fields
from replicator.protocol.message import StoredMessage
from replicator.routing import provenance
from replicator.routing.batcher import Batch, Batcher
from replicator.routing.channel import Channel
from replicator.routing.checked_send import checked, outcome
from replicator.routing.dead_letter import DeadLetters
from replicator.routing.faults import (
    Drained,
    LeaseLost,
    MessageRejected,
    OutcomeUnknown,
    QueueFailed,
    StoredElsewhere,
    TargetBlocked,
)
from replicator.routing.limiter import RateLimiter
from replicator.routing.message_queue import MessageQueue
from replicator.routing.options import RouteOptions
from replicator.routing.queue_progress import Seen
from replicator.routing.seal import Extent
from replicator.routing.single_send import OFTEN, unsendable, why_not_singly, without_delay
from replicator.routing.state import Phase, QueueState
from replicator.routing.transforming import Transforming
from replicator.routing.wait_timer import SOURCE, TARGET

__all__ = ["SinkTask"]

#: Seconds until a send is repeated for the first time while the target is busy.
_FIRST_PAUSE: Final = 0.02
#: Seconds from the first refusal on in which it is repeated, before memory is given back to others.
_INSIST: Final = 2.0

_WAYS_OUT: Final = {
    "the target": "raise the target's limit",
    "a transform": "fix the transform",
    "the replicator": "take away the property with a transform",
}

log = get_logger(__name__)


class SinkTask:
    """Sends what comes through `channel` to `target` (a VIP channel).

    Args:
        connection: the one to `target` over which the target queue was checked; nothing is sent over any other.
        topic: the topic's name at the target.
        on_shift: called with [from, to) when target offsets were taken by another producer.
        suspicious: somebody's earlier send may still be stored: if our first batch does not land at `target_end`,
            read the tail again instead of taking what is between for foreign messages.
        may_send: whether this worker holds its lease; asked before every request that stores something.
        transforming: sees all messages before they are put into batches; None where the route has no transform.
    """

    def __init__(  # noqa: PLR0913 - it is where the parts of a pair come together
        self,
        target: Endpoint,
        connection: Connection,
        channel: Channel,
        batcher: Batcher,
        *,
        topic: str,
        state: QueueState,
        options: RouteOptions,
        limiter: RateLimiter,
        dead_letters: DeadLetters,
        on_taken: Callable[[], None],
        on_shift: Callable[[int, int], None],
        suspicious: bool,
        may_send: Callable[[], bool],
        transforming: Transforming | None = None,
    ) -> None:
        self._target = target
        self._connection = connection
        self._channel = channel
        self._batcher = batcher
        self._topic = topic
        self._state = state
        self._options = options
        self._limiter = limiter
        self._dead_letters = dead_letters
        self._on_taken = on_taken
        self._on_shift = on_shift
        self._may_send = may_send
        self._transforming = transforming
        self.suspicious = suspicious

    async def run(self) -> None:
        """Sends until the channel fails; raises what it failed with, or what went wrong here."""
        while True:
            if not self._channel.chunks:
                self._state.counters.waits.begin(SOURCE)
                await self._channel.ready()
                self._state.counters.waits.end()
            await self.flush()

    async def flush(self) -> None:
        """Sends what is in the channel now, one batch after the other.

        If it ends with an exception, the batch it was at is neither in the channel nor in the position: whoever
        continues reads it from the source again.
        """
        while self._channel.chunks:
            if self._transforming is not None:
                await self._transforming.see(self._channel.chunks)
            messages, size = self._limiter.portion
            batch = self._batcher.take(messages, min(size, self._connection.line.portion))
            self._on_taken()
            self._state.progress.left_out = batch.left_out
            try:
                if batch.packs:
                    self._state.progress.head_timestamp = batch.packs[0].stored[0]
                    await self._throttle(batch)
                    await self._deliver(batch)
                # Also where there was nothing to send: what was filtered out is behind the position, too.
                self._state.progress.position = batch.position
                if batch.last_stored:
                    self._state.progress.seen = Seen(batch.position - 1, batch.last_stored)
                self._state.audit.reached(batch.position)
                self._state.progress.head_timestamp = 0
            finally:
                self._state.count_left_out()
                self._channel.release(batch.held)

    async def _throttle(self, batch: Batch) -> None:
        """Waits until the limits let it go.

        Raises:
            Drained: the queue is to end here: whoever continues need not wait for what the limits hold back.
        """
        self._state.throttled = True
        try:
            may_go = await self._limiter.acquire(batch.count, batch.size, given_up=lambda: self._channel.is_drained)
        finally:
            self._state.throttled = False
        if not may_go:
            raise Drained("drained but for what the rate limits hold back")

    async def _deliver(self, batch: Batch) -> None:
        first = batch.packs[0]
        if first.refused:  # such a message, and one that is too long, is alone in its batch
            return await self._reject(batch, first.refused, by="a transform")
        if first.too_long:
            size = first.too_long
            return await self._reject(batch, f"its properties are {size} bytes with provenance, 32767 are possible")
        if self._topic.startswith(RETRY_PREFIX):
            return await self._deliver_retry(batch)
        if self._topic.startswith(DEAD_LETTER_PREFIX):
            return await self._deliver_dead_letter(batch)
        if first.light:
            return await self._deliver_light(batch)
        return await self._deliver_batch(batch)

    async def _deliver_batch(self, batch: Batch) -> None:
        try:
            stored = await self._send(batch)
        except MessageRejected as rejected:
            if batch.count > 1:  # the target does not say which message it refuses: the others are sent without it
                for half in batch.halves():
                    await self._deliver(half)
                return None
            return await self._deliver_single(batch, rejected)
        self._account_for(batch, stored)
        return None

    async def _send(self, batch: Batch) -> Stored:
        fields, body = self._fields(batch), self._body(batch)
        return await self._insist(lambda connection: send_batch(connection, fields, body), batch.size)

    async def _insist(self, send: Callable[[Connection], Awaitable[Stored]], size: int) -> Stored:
        """Sends `size` bytes until the target takes them; a busy target is left alone for longer and longer.

        All of that is a wait for the target: the line's turn, the answer, and the pauses.

        Raises:
            TargetBlocked: it has taken nothing for two seconds. An attempt may take longer by itself, as one at a
                connection does, or over a slow line.
            MessageRejected: it never will.
        """
        counters = self._state.counters
        backoff, until = Backoff(_FIRST_PAUSE, inf), inf
        counters.waits.begin(TARGET)
        try:
            while True:
                try:
                    return await self._once(send, size)
                except MessageRejected as rejected:
                    counters.error(rejected)
                    raise
                except TargetBlocked as blocked:
                    pause, until = backoff.next(), min(until, now() + _INSIST)
                    if now() + pause > until:
                        raise
                    counters.retries += 1
                    counters.error(blocked)
                    self._state.reason = str(blocked)
                    await asyncio.sleep(pause)
        finally:
            counters.waits.end()

    async def _once(self, send: Callable[[Connection], Awaitable[Stored]], size: int) -> Stored:
        async with crossing(self._connection.line, size):
            connection = await checked(self._target, self._connection)
            # Asked last. But for a dead letter, which may have to create its topic or connect first, and could be
            # written twice without the lease, nothing is awaited between this and the write: the lease holds then.
            if not self._may_send():
                raise LeaseLost("the lease has expired: others may own this queue by now")
            return await outcome(send(connection))

    def _body(self, batch: Batch) -> Sequence[bytes]:
        seal = self._seal(batch)
        if not seal:
            return batch.body
        first, *others = batch.body
        return [*extended(first, seal), *others]

    def _seal(self, batch: Batch) -> bytes:
        """What proves that the batch is ours, as a property of its first message; empty without a secret."""
        sealer = self._options.sealer
        if sealer is None:
            return b""
        source = properties.find(batch.packs[0].message().properties, provenance.SOURCE) or b""
        newest = max(max(pack.stored) for pack in batch.packs)
        return sealer.seal(self._topic, source, Extent(batch.packs[-1].offsets[-1], batch.count, newest))

    def _fields(self, batch: Batch) -> dict[str, str]:
        """The header: what a batch has once. The batcher keeps messages apart that differ in it.

        Except in their born times: where these need not be exact, all messages get that of the first.
        """
        first = batch.packs[0]
        return header_fields(
            group=GROUP,
            topic=self._topic,
            queue_id=self._state.target.queue_id,
            sys_flag=first.sys_flag,
            born_timestamp=first.born_timestamp,
            reconsume_times=first.reconsume_times,
        )

    async def _deliver_single(self, batch: Batch, rejected: MessageRejected) -> None:
        """A body of nearly the target's `maxMessageSize` fits in a single send where no batch holds it."""
        message = batch.packs[0].message()
        if why_not_singly(message):
            return await self._reject(batch, rejected.message)
        return await self._send_singly(batch, message, message.properties)

    async def _deliver_light(self, batch: Batch) -> None:
        """A message that is in light message queues: the target puts it into its own only in a single send."""
        message = batch.packs[0].message()
        if why := why_not_singly(message):
            return await self._reject(batch, f"it is in light message queues, and {why}", by="the replicator")
        return await self._send_singly(batch, message, message.properties)

    async def _deliver_retry(self, batch: Batch) -> None:
        """A message that its group could not consume, one of a batch of one: brokers refuse batches for retries."""
        message = batch.packs[0].message()
        if why := unsendable(message):
            return await self._reject(batch, why)
        raw = provenance.retried(without_delay(message.properties), message.reconsume_times)
        return await self._send_singly(batch, message, raw)

    async def _deliver_dead_letter(self, batch: Batch) -> None:
        """A message that its group has given up, one of a batch of one: as such brokers store it as it is."""
        message = batch.packs[0].message()
        raw = self._sealed(batch, provenance.retried(message.properties, message.reconsume_times))
        fields, body = self._fields(batch), entry(message.body, raw, body_crc=message.body_crc, flag=message.flag)
        await self._send_alone(batch, lambda connection: send_batch(connection, fields, [body]))

    async def _send_singly(self, batch: Batch, message: StoredMessage, raw: bytes) -> None:
        sent = self._sealed(batch, raw).decode(errors="surrogateescape")
        # "l": a message that was tried often is not to go to the dead letters on its way.
        fields = self._fields(batch) | {"h": str(message.flag), "i": sent, "l": OFTEN, "m": "false"}
        await self._send_alone(batch, lambda connection: send_single(connection, fields, message.content))

    def _sealed(self, batch: Batch, raw: bytes) -> bytes:
        """The properties `raw` of a batch's only message with its seal, if there is room for it."""
        seal = self._seal(batch)
        return raw + seal if len(raw) + len(seal) <= properties.MAX_PROPERTIES else raw

    async def _send_alone(self, batch: Batch, send: Callable[[Connection], Awaitable[Stored]]) -> None:
        """Sends a batch of one message, which cannot be split if the target refuses it."""
        try:
            stored = await self._insist(send, batch.size)
        except MessageRejected as rejected:
            return await self._reject(batch, rejected.message)
        # Retries and dead letters go out with other properties than those that were packed, and in a single send
        # brokers put properties into another order.
        self._account_for(batch, stored, checkable=False)
        return None

    def _account_for(self, batch: Batch, stored: Stored, *, checkable: bool = True) -> None:
        """Accounts for a batch that the target has acknowledged, which may be a part of the one that was taken.

        Args:
            checkable: what the target stores has the checksum of what was packed.

        Raises:
            StoredElsewhere, OutcomeUnknown: it is not at the end of the tail that was read. Nothing is accounted
                for: the tail is read again, and shows the batch, too.
        """
        state, progress, counters = self._state, self._state.progress, self._state.counters
        expected, offset = progress.target_end, stored.offset
        if expected is not None and offset != expected:
            self._shifted(expected, offset)
        self.suspicious = False
        if state.audit.share:
            state.audit.sent(batch.packs, offset, batch.position, now(), checkable=checkable)
        for pack in batch.packs:
            if isinstance(pack.offsets, range):
                progress.offsets.add(pack.offsets[0], offset, len(pack))
            else:
                for i, source in enumerate(pack.offsets):
                    progress.offsets.add(source, offset + i, 1)
            offset += len(pack)
        progress.target_end = offset
        if state.reason:
            if state.phase is not Phase.RUNNING:  # else the target was only busy for a moment
                queue = str(MessageQueue(state.topic, *state.source))
                log.info("no longer waiting", connector=state.route, queue=queue, waited_for=state.reason)
            state.set_phase(Phase.RUNNING)
        progress.position = batch.position
        counters.batches += 1
        counters.copied += batch.count
        counters.copied_bytes += batch.size
        if batch.packs[0].stored[0] < self._options.late_before:
            counters.late += sum(at < self._options.late_before for pack in batch.packs for at in pack.stored)
        progress.store_timestamp = batch.packs[-1].stored[-1]
        counters.observe(batch.packs, source_now_ms=(time.time() + progress.skew) * 1000)

    def _shifted(self, expected: int, offset: int) -> None:
        if offset < expected:
            raise OutcomeUnknown(
                f"the target queue went back from offset {expected} to {offset}: it was truncated or recreated"
            )
        if self.suspicious:
            # What the last sender had under way is stored before this batch, or never.
            self.suspicious = False
            raise StoredElsewhere(f"something was stored at target offsets {expected} to {offset - 1} meanwhile")
        self._on_shift(expected, offset)

    async def _reject(self, batch: Batch, reason: str, *, by: str = "the target") -> None:
        first, state = batch.packs[0], self._state
        what = f"the message at offset {first.offsets[0]} of {MessageQueue(state.topic, *state.source)}"
        policy = self._options.on_error
        if policy == "wait":
            raise TargetBlocked(f"{what} is refused by {by}: {reason}", hint="on_error=wait retries it")
        if policy == "fail":
            raise QueueFailed(
                f"{what} is refused by {by}: {reason}",
                hint=f"{_WAYS_OUT[by]}, or choose on_error=skip or dead-letter; it is retried from time to time",
            )
        if policy == "dead-letter":
            # It goes to another topic, over whatever connection there is: where the target queue ends is of no
            # importance to it.
            place = (state.target.broker, state.topic, state.source)
            try:
                await self._insist(lambda _: self._dead_letters.put(*place, first.message(), reason), batch.size)
            except MessageRejected as rejected:
                raise QueueFailed(
                    f"{what} is refused by {by}: {reason}; and the target refuses its dead letter for"
                    f" {self._options.dead_letter_topic}: {rejected.message}",
                    hint=f"{_WAYS_OUT[by]}, or choose on_error=skip; it is retried from time to time",
                ) from None
            state.counters.skip("dead-letter", 1)
        else:
            state.counters.skip("error", 1)
        state.progress.position = batch.position
