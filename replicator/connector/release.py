"""The release of parked messages at the target: each one that is neither recalled nor there, once, when it is due.

Brokers of 5.x get it at once, and deliver it when it is due. For others, and what is due later than their timers
take, it is sent when it is due. A released message names the parked one, so whoever repeats a release finds what
was sent before, wherever that was interrupted.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from replicator.client.brokers import read_settings
from replicator.client.pull import GROUP, message_at
from replicator.client.send import Stored, send_batch, send_single
from replicator.client.system_topics import RETRY_PREFIX, TIMER_TOPIC
from replicator.connector.context import ConnectorContext
from replicator.connector.patient_send import send_patiently
from replicator.connector.release_lanes import Lane, Lanes, Refused
from replicator.connector.release_scan import find
from replicator.errors import BrokerRefused
from replicator.observe.logging import get_logger
from replicator.protocol import properties
from replicator.protocol.batch import KEPT_SYS_FLAGS, entry, header_fields
from replicator.protocol.message import StoredMessage
from replicator.routing import provenance
from replicator.routing.faults import MessageRejected
from replicator.routing.parked import UNIQUE, Parked, as_new, as_released
from replicator.routing.queue_map import Queue
from replicator.routing.release_plan import ReleasePlan, plan_release
from replicator.routing.single_send import OFTEN, unsendable

__all__ = ["Release", "Released"]

#: Requests of a release that are under way at each broker of the target at a time.
_AT_ONCE: Final = 16
#: Seconds before its due time from which on a message is sent by us: no timer is more exact.
_SOON: Final = 1.0
#: Milliseconds by which a broker's timer delivers a message earlier that is due at a whole second: it works in
#: ticks of that length.
_EARLY: Final = 1000
#: Bytes that a single send, and the target's broker, add to the properties.
_ADDED: Final = 256
#: How often a message may be refused, once per plan, before it is left where it is.
_ROUNDS: Final = 3

log = get_logger(__name__)


@dataclass(slots=True)
class Released:
    """What a release has done so far.

    `overdue` were sent late, `on_time` when they were due, `in_timer` to the target's timers; `before` is what was
    found released. `not_released` counts by topic and reason what cannot be. `waiting` are still to be sent by us:
    by id, in the order of their due times.
    """

    overdue: int = 0
    on_time: int = 0
    in_timer: int = 0
    before: int = 0
    recalled: int = 0
    delivered: int = 0
    not_released: Counter[tuple[str, str]] = field(default_factory=Counter)
    waiting: dict[str, Parked] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: ReleasePlan) -> Released:
        return cls(before=plan.released, recalled=plan.recalled, delivered=plan.delivered)

    def shown(self) -> dict[str, Any]:
        """For people and scripts."""
        return {
            "overdue": self.overdue,
            "on_time": self.on_time,
            "in_timer": self.in_timer,
            "waiting": len(self.waiting),
            "until": next(reversed(self.waiting.values())).due / 1000 if self.waiting else None,
            "released_before": self.before,
            "recalled": self.recalled,
            "delivered": self.delivered,
            "not_released": [
                {"topic": topic, "messages": count, "reason": reason}
                for (topic, reason), count in sorted(self.not_released.items())
            ],
        }


class Release:
    """Releases what the connector `name` has parked.

    Its requests need no lease: that one worker of the group releases at a time is decided by the ledger of the
    failover, which `may_go_on` asks before each message.

    Args:
        concerns: whether messages for a topic of the source are released.
        tags: only messages with one of these; empty for all.
    """

    def __init__(
        self,
        name: str,
        context: ConnectorContext,
        concerns: Callable[[str], bool],
        *,
        tags: frozenset[bytes] = frozenset(),
    ) -> None:
        self.done = Released()
        self._name = name
        self._context = context
        #: A lease needs the source, which may be dead.
        self._target = context.unleased or context.target.cluster
        self._concerns = concerns
        self._tags = tags
        #: Per target broker for how many seconds its timer takes messages; 0: it has none.
        self._timers: dict[str, int] = {}
        #: Limits the requests per target broker; not held during a pause.
        self._slots = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(_AT_ONCE))
        #: How often a message was refused, by its id.
        self._refusals: Counter[str] = Counter()

    async def plan(self) -> ReleasePlan:
        """What there is to do; errors as `find`."""
        return plan_release(await find(self._name, self._context, self._concerns, tags=self._tags))

    def would(self, plan: ReleasePlan) -> dict[str, Any]:
        """What carrying out `plan` now would do."""
        done, now = Released.of(plan), time.time() * 1000
        for parked in plan.release:
            if (why := self._blocker(parked)) is not None:
                done.not_released[parked.topic, why] += 1
            elif parked.due <= now:
                done.overdue += 1
            else:
                done.waiting[parked.id] = parked
        return done.shown()

    async def begin(self, plan: ReleasePlan, may_go_on: Callable[[], bool]) -> None:
        """Sends what is overdue, and what timers take; `go_on` sends the rest. Ends early when `may_go_on` says no.

        A failure stops its own queue. It is raised only when all others are at their ends, since what was sent
        after the next plan was made would be sent again by that plan.

        Raises:
            OutcomeUnknown: it is not known whether a message was stored: a new plan shows it.
            TargetBlocked: the target takes nothing now.
            BrokerRefused, Unreachable, RequestTimeout: a broker gives nothing that is parked.
        """
        self.done = done = Released.of(plan)
        self._timers.clear()
        for parked in plan.release:
            if (why := self._blocker(parked)) is not None:
                done.not_released[parked.topic, why] += 1
            else:
                done.waiting[parked.id] = parked
        await self._target.refresh()
        await Lanes(done.waiting.values(), self._now, may_go_on).offer(self._first)

    async def go_on(self, may_go_on: Callable[[], bool]) -> None:
        """Sends the rest when it is due; ends early when `may_go_on` says no. Errors as `begin`.

        They are raised as soon as no message is due: the next plan has what was not sent. Whenever this ends, also
        when it is cancelled, all that is not known to be sent is still `waiting`.
        """
        await Lanes(self.done.waiting.values(), self._now, may_go_on).finish()

    async def _first(self, parked: Parked, late: Lane) -> None:
        """Sends a message if that can be done now, else puts it behind those of `late`."""
        seconds = parked.due / 1000 - time.time()
        if seconds <= _SOON:
            await self._now(parked)
        elif seconds >= await self._timer(self._place(parked).broker) or not await self._to_timer(parked):
            late.append(parked)

    async def _timer(self, broker: str) -> int:
        async with self._slots[broker]:
            if broker not in self._timers:
                self._timers[broker] = await self._timer_now(broker)
            return self._timers[broker]

    async def _timer_now(self, broker: str) -> int:
        if TIMER_TOPIC not in self._context.target.topics.get(broker, ()):
            return 0  # as of 5.1.4: nobody sees what it was given, so the next plan would release that again
        try:
            settings = await read_settings(self._target.master(broker))
        except BrokerRefused:
            return 0
        limit = properties.number(settings.get("timerMaxDelaySec", ""))
        return limit or 0 if settings.get("timerWheelEnable") == "true" else 0

    def _blocker(self, parked: Parked) -> str | None:
        """Why a message cannot be released; None if it can."""
        store = self._context.store
        if not store.is_mapped(self._name, parked.topic):
            return "no copy of the topic is known to this group"
        if parked.queue not in store.whole_queue_map(self._name, parked.topic):
            return "no copy of its queue is known to this group"
        return None

    def _place(self, parked: Parked) -> Queue:
        # With the queues of forgotten brokers of the source: nobody else has what waited there.
        return self._context.store.whole_queue_map(self._name, parked.topic)[parked.queue]

    async def _message(self, parked: Parked) -> StoredMessage | None:
        topic, queue, offset = parked.place
        master = self._target.master(queue.broker)
        async with self._slots[queue.broker]:
            return await message_at(master, topic, queue.queue_id, offset)

    async def _now(self, parked: Parked) -> None:
        done, message = self.done, await self._message(parked)
        if message is None:
            self._finish(parked)
            done.not_released[parked.topic, "retention at the target has deleted it while it was parked"] += 1
            return
        late = parked.due / 1000 < time.time() - _SOON
        if parked.topic.startswith(RETRY_PREFIX) and (why := unsendable(message)):  # brokers refuse batches there
            self._leave(parked, why)
            return
        try:
            await self._send(parked, message)
        except (MessageRejected, Refused) as refused:
            if not self._is_final(parked, refused):
                raise
            self._leave(parked, f"the target refuses it: {refused}")
            return
        self._finish(parked)
        done.overdue += late
        done.on_time += not late

    def _finish(self, parked: Parked) -> None:
        """It is not to be sent any more."""
        self.done.waiting.pop(parked.id)

    def _leave(self, parked: Parked, why: str) -> None:
        log.error("parked message cannot be released", connector=self._name, message=parked.id, reason=why)
        self._finish(parked)
        self.done.not_released[parked.topic, why] += 1

    def _is_final(self, parked: Parked, refused: MessageRejected | Refused) -> bool:
        """Whether the target will not take a message: it says so, or has refused it in as many plans as it gets."""
        self._refusals[parked.id] += 1
        return isinstance(refused, MessageRejected) or self._refusals[parked.id] >= _ROUNDS

    async def _send(self, parked: Parked, message: StoredMessage) -> None:
        if parked.topic.startswith(RETRY_PREFIX):
            raw = as_new(message.properties, parked.id, seal=self._seal(parked, message))
            await self._send_single(parked, message, raw)
            return
        raw = as_released(message.properties, parked.id, seal=self._seal(parked, message))
        body = entry(message.body, raw, body_crc=message.body_crc, flag=message.flag)
        writer, fields = self._header(parked, message)
        await self._insist(parked, lambda: send_batch(writer, fields, [body]))

    async def _to_timer(self, parked: Parked) -> bool:
        """Gives a message to the target's timer; whether that has taken it."""
        message = await self._message(parked)
        if message is None or unsendable(message):
            return False
        due = parked.due + (_EARLY if parked.due % _EARLY == 0 else 0)
        raw = as_new(message.properties, parked.id, seal=self._seal(parked, message))
        raw += b"TIMER_DELIVER_MS\x01%d\x02" % due
        try:
            await self._send_single(parked, message, raw)
        except (MessageRejected, Refused) as refused:
            if not self._is_final(parked, refused):
                raise
            log.warning("the timer refuses a message", connector=self._name, message=parked.id, reason=str(refused))
            return False
        self._finish(parked)
        self.done.in_timer += 1
        return True

    def _seal(self, parked: Parked, message: StoredMessage) -> bytes:
        """What proves to who repeats the release that this group has sent it; nothing where that has no room."""
        sealer = self._context.sealer
        if sealer is None:
            return b""
        seal = sealer.seal_release(parked.id.encode(), properties.find(message.properties, UNIQUE) or b"")
        room = properties.MAX_PROPERTIES - len(as_released(message.properties, parked.id)) - _ADDED
        return seal if len(seal) <= room else b""

    async def _send_single(self, parked: Parked, message: StoredMessage, raw: bytes) -> None:
        if parked.topic.startswith(RETRY_PREFIX):  # else it would pass for one that the target's broker has made
            raw = provenance.retried(raw, message.reconsume_times)
        writer, fields = self._header(parked, message)
        # "l": a message that was tried often is not to go to the dead letters on its way.
        fields |= {"h": str(message.flag), "i": raw.decode(errors="surrogateescape"), "l": OFTEN, "m": "false"}
        await self._insist(parked, lambda: send_single(writer, fields, message.content))

    async def _insist(self, parked: Parked, send: Callable[[], Awaitable[Stored]]) -> None:
        """Errors as `send_patiently`."""
        await send_patiently(send, self._slots[self._place(parked).broker])

    def _header(self, parked: Parked, message: StoredMessage) -> tuple[Any, dict[str, str]]:
        queue = self._place(parked)
        return self._target.writer(queue.broker), header_fields(
            group=GROUP,
            topic=self._context.store.target_topic(self._name, parked.topic),
            queue_id=queue.queue_id,
            sys_flag=message.sys_flag & KEPT_SYS_FLAGS,
            born_timestamp=message.born_timestamp,
            reconsume_times=message.reconsume_times,
        )
