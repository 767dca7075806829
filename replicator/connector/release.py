"""The release of parked messages at the target: each one that is neither recalled nor there, once, when it is due.

Brokers of 5.x get it at once, and deliver it when it is due. For others, and what is due later than their timers
take, it is sent when it is due. A released message names the parked one, so whoever repeats a release finds what
was sent before, wherever that was interrupted.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from replicator.aio.bounded import bounded
from replicator.client.brokers import read_settings
from replicator.client.pull import GROUP, message_at
from replicator.client.send import Stored, send_batch, send_single
from replicator.client.system_topics import RETRY_PREFIX
from replicator.connector.context import ConnectorContext
from replicator.connector.release_scan import find
from replicator.errors import BrokerRefused, ReplicatorError
from replicator.observe.logging import get_logger
from replicator.protocol.batch import KEPT_SYS_FLAGS, entry, header_fields
from replicator.protocol.message import StoredMessage
from replicator.routing.checked_send import outcome
from replicator.routing.faults import MessageRejected, TargetBlocked
from replicator.routing.parked import Parked, as_new, as_released
from replicator.routing.queue_map import Queue
from replicator.routing.release_plan import ReleasePlan, plan_release

__all__ = ["Release", "Released"]

#: Messages that are sent at a time.
_AT_ONCE: Final = 16
#: Seconds before its due time from which on a message is sent by us: no timer is more exact.
_SOON: Final = 1.0
#: Seconds to wait for a target that is busy, each time.
_PAUSES: Final = (0.1, 0.3, 0.6, 1.0)
#: Milliseconds by which a broker's timer delivers earlier than it is told to.
_EARLY: Final = 1000

log = get_logger(__name__)


@dataclass(slots=True)
class Released:
    """What a release has done so far.

    `overdue` were sent late, `on_time` when they were due, `in_timer` to the target's timers; `before` is what was
    found released. `left` counts by topic and reason what cannot be released. `waiting` are still to be sent by us.
    """

    overdue: int = 0
    on_time: int = 0
    in_timer: int = 0
    before: int = 0
    recalled: int = 0
    delivered: int = 0
    left: Counter[tuple[str, str]] = field(default_factory=Counter)
    waiting: deque[Parked] = field(default_factory=deque)

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
            "until": self.waiting[-1].due / 1000 if self.waiting else None,
            "released_before": self.before,
            "recalled": self.recalled,
            "delivered": self.delivered,
            "left": [
                {"topic": topic, "messages": count, "reason": reason}
                for (topic, reason), count in sorted(self.left.items())
            ],
        }


class Release:
    """Releases what the connector `name` has parked.

    Args:
        concerns: whether messages for a topic of the source are released.
    """

    def __init__(self, name: str, context: ConnectorContext, concerns: Callable[[str], bool]) -> None:
        self.done = Released()
        self._name = name
        self._context = context
        #: A failover with the source dead has no lease.
        self._target = context.unleased or context.target.cluster
        self._concerns = concerns
        #: Per target broker for how many seconds its timer takes messages; 0: it has none.
        self._timers: dict[str, int] = {}

    async def plan(self) -> ReleasePlan:
        """What there is to do; errors as `find`."""
        return plan_release(await find(self._name, self._context, self._concerns))

    def would(self, plan: ReleasePlan) -> dict[str, Any]:
        """What carrying out `plan` now would do."""
        done, now = Released.of(plan), time.time() * 1000
        for parked in plan.release:
            if (why := self._hindrance(parked)) is not None:
                done.left[parked.topic, why] += 1
            elif parked.due <= now:
                done.overdue += 1
            else:
                done.waiting.append(parked)
        return done.shown()

    async def begin(self, plan: ReleasePlan, may_go_on: Callable[[], bool]) -> None:
        """Sends what is overdue, and what timers take; `go_on` sends the rest. Ends early when `may_go_on` says no.

        Raises:
            OutcomeUnknown: it is not known whether a message was stored: a new plan shows it.
            TargetBlocked: the target takes nothing now.
            BrokerRefused, Unreachable, RequestTimeout: a broker gives nothing that is parked.
        """
        self.done = done = Released.of(plan)
        lanes: dict[Queue, list[Parked]] = {}  # each by due time, as the plan
        for parked in plan.release:
            if (why := self._hindrance(parked)) is not None:
                done.left[parked.topic, why] += 1
            else:
                lanes.setdefault(parked.queue, []).append(parked)
        await self._target.refresh()
        for broker in {self._place(each).broker for lane in lanes.values() for each in lane}:
            self._timers[broker] = await self._timer(broker)
        failures: list[ReplicatorError] = []

        async def send(lane: list[Parked]) -> list[Parked]:
            late = []
            try:
                for number, parked in enumerate(lane):
                    if not may_go_on():  # maybe for a moment only, and then they are still to be sent
                        late += lane[number:]
                        break
                    if not failures and not await self._first(parked):
                        late.append(parked)
            except ReplicatorError as error:
                failures.append(error)
            return late

        late = await bounded(send, lanes.values(), at_once=_AT_ONCE)
        if failures:
            raise failures[0]
        done.waiting = deque(sorted(chain.from_iterable(late), key=lambda each: each.due))

    async def go_on(self, may_go_on: Callable[[], bool]) -> None:
        """Sends the rest when it is due; ends early when `may_go_on` says no. Errors as `begin`."""
        waiting = self.done.waiting
        while waiting and may_go_on():
            seconds = waiting[0].due / 1000 - time.time()
            if seconds > 0:
                await asyncio.sleep(min(seconds, _SOON))
                continue
            await self._now(waiting[0])
            waiting.popleft()

    async def _first(self, parked: Parked) -> bool:
        """Sends a message if that can be done now; whether it is dealt with."""
        seconds = parked.due / 1000 - time.time()
        if seconds > _SOON:
            return seconds < self._timers[self._place(parked).broker] and await self._to_timer(parked)
        await self._now(parked)
        return True

    async def _timer(self, broker: str) -> int:
        try:
            settings = await read_settings(self._target.master(broker))
        except BrokerRefused:
            return 0
        limit = settings.get("timerMaxDelaySec", "")
        return int(limit) if settings.get("timerWheelEnable") == "true" and limit.isdigit() else 0

    def _hindrance(self, parked: Parked) -> str | None:
        """Why a message cannot be released; None if it can."""
        store = self._context.store
        if not store.is_mapped(self._name, parked.topic):
            return "the topic was never copied, so there is none at the target"
        if parked.queue not in store.queue_map(self._name, parked.topic):
            return "its queue was never copied, so there is none at the target"
        return None

    def _place(self, parked: Parked) -> Queue:
        return self._context.store.queue_map(self._name, parked.topic)[parked.queue]

    async def _message(self, parked: Parked) -> StoredMessage | None:
        topic, queue, offset = parked.place
        master = self._target.master(queue.broker)
        return await message_at(master, topic, queue.queue_id, offset)

    async def _now(self, parked: Parked) -> None:
        done, late = self.done, parked.due / 1000 < time.time() - _SOON
        message = await self._message(parked)
        if message is None:
            done.left[parked.topic, "retention at the target has deleted it while it was parked"] += 1
            return
        try:
            await self._send(parked, message)
        except MessageRejected as rejected:
            log.error("parked message refused", connector=self._name, message=parked.id, reason=str(rejected))
            done.left[parked.topic, f"the target refuses it: {rejected}"] += 1
            return
        done.overdue += late
        done.on_time += not late

    async def _send(self, parked: Parked, message: StoredMessage) -> None:
        if parked.topic.startswith(RETRY_PREFIX):  # brokers refuse batches there
            await self._send_single(parked, message, as_new(message.properties, parked.id))
            return
        raw = as_released(message.properties, parked.id)
        body = entry(message.body, raw, body_crc=message.body_crc, flag=message.flag)
        writer, fields = self._header(parked, message)
        await _insist(lambda: send_batch(writer, fields, [body]))

    async def _to_timer(self, parked: Parked) -> bool:
        """Gives a message to the target's timer; whether that has taken it."""
        message = await self._message(parked)
        if message is None or not message.body_length:  # brokers take no single message without a body
            return False
        due = parked.due + (_EARLY if parked.due % _EARLY == 0 else 0)
        raw = as_new(message.properties, parked.id) + b"TIMER_DELIVER_MS\x01%d\x02" % due
        try:
            await self._send_single(parked, message, raw)
        except MessageRejected as rejected:
            log.warning(
                "the timer refuses a message", connector=self._name, message=parked.id, reason=str(rejected)
            )
            return False
        self.done.in_timer += 1
        return True

    async def _send_single(self, parked: Parked, message: StoredMessage, raw: bytes) -> None:
        writer, fields = self._header(parked, message)
        fields |= {"h": str(message.flag), "i": raw.decode(errors="surrogateescape"), "m": "false"}
        await _insist(lambda: send_single(writer, fields, message.content))

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


async def _insist(send: Callable[[], Awaitable[Stored]]) -> None:
    """Sends until the target takes it, or has been busy for two seconds; errors as `outcome`."""
    for pause in _PAUSES:
        try:
            await outcome(send())
        except TargetBlocked:
            await asyncio.sleep(pause)
        else:
            return
    await outcome(send())
