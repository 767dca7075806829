"""What of a release is sent at once, and what is left to be sent; what cannot be sent holds nothing else back."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.connector import release as module
from replicator.connector import release_lanes
from replicator.connector.release import Release
from replicator.errors import BrokerRefused, ReplicatorError, Unreachable
from replicator.protocol import properties
from replicator.protocol.batch import unpack
from replicator.protocol.message import StoredMessage
from replicator.routing.faults import OutcomeUnknown, TargetBlocked
from replicator.routing.parked import Parked, Place
from replicator.routing.queue_map import Queue
from replicator.routing.release_plan import ReleasePlan
from replicator.routing.seal import Sealer
from tests.support.virtual_time import VirtualLoop, WallClock

QUEUE = Queue("a", 0)
#: Milliseconds; later than any clock here.
LATE = 4_000_000_000_000


def overdue(number: int, *, topic: str = "orders", queue: Queue = QUEUE, due: int | None = None) -> Parked:
    return Parked(
        id=str(number),
        kind="delay",
        topic=topic,
        queue=queue,
        due=number if due is None else due,
        unique=b"",
        fingerprint=b"",
        rolled=0,
        parked_at=0,
        place=Place("parked", QUEUE, number),
    )


def plan(*parked: Parked) -> ReleasePlan:
    return ReleasePlan(release=list(parked))


class Target:
    """A cluster that has parked messages, and takes released ones unless `refuse` raises."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[str] = []
        self.singles: list[tuple[dict[str, str], bytes]] = []
        self.raw: dict[int, bytes] = {}
        self.tried = 0
        self.sealer: Sealer | None = None
        self.batches: list[bytes] = []
        self.refuse: Callable[[str], None] = lambda _: None
        self.settings = {"timerWheelEnable": "true", "timerMaxDelaySec": "9999999999"}
        self.topics = {"rmq_sys_wheel_timer"}
        self.takes_long: Callable[[str], Awaitable[None]] = _nothing
        #: Seconds that a request takes, how many are under way at each broker, and the most that ever were.
        self.line = 0.0
        self.asked: Counter[str] = Counter()
        self.asked_most = 0
        monkeypatch.setattr(module, "message_at", self.message_at)
        monkeypatch.setattr(module, "send_batch", self.send_batch)
        monkeypatch.setattr(module, "send_single", self.send_single)
        monkeypatch.setattr(module, "read_settings", self.read_settings)

    def release(self, **store: Any) -> Release:
        queues = {Queue(broker, 0): Queue(broker, 0) for broker in "ab"}
        known = {"is_mapped": lambda *_: True, "target_topic": lambda _, topic: topic}
        maps = {"queue_map": lambda *_: queues, "whole_queue_map": lambda *_: queues}
        cluster = SimpleNamespace(refresh=_nothing, master=lambda broker: broker, writer=lambda broker: broker)
        context: Any = SimpleNamespace(
            store=SimpleNamespace(**{**known, **maps, **store}),
            unleased=cluster,
            sealer=self.sealer,
            target=SimpleNamespace(topics=dict.fromkeys("ab", self.topics)),
        )
        return Release("route", context, lambda _: True)

    async def read_settings(self, _: str) -> dict[str, str]:
        return self.settings

    async def message_at(self, broker: str, _: str, __: int, offset: int) -> StoredMessage:
        await self._over_the_line(broker)
        raw = self.raw.get(offset, b"UNIQ_KEY\x01AB\x02DELAY\x013\x02")
        return StoredMessage(offset, 0, 0, 500, 1_000, 3, 0, b"\x00\x00\x00\x04body", raw)

    async def _over_the_line(self, broker: str) -> None:
        self.asked[broker] += 1
        self.asked_most = max(self.asked_most, *self.asked.values())
        await asyncio.sleep(self.line)
        self.asked[broker] -= 1

    async def send_batch(self, broker: str, fields: dict[str, str], body: list[bytes]) -> None:
        await self._over_the_line(broker)
        self.batches.append(unpack(body[0])[3])
        await self._take(properties.find(self.batches[-1], b"__RPL_RELEASED") or b"")

    async def send_single(self, _: str, fields: dict[str, str], __: bytes) -> None:
        raw = fields["i"].encode()  # as whoever writes it to the wire has to
        await self._take(properties.find(raw, b"__RPL_RELEASED") or b"")
        self.singles.append((fields, raw))

    async def _take(self, parked: bytes) -> None:
        self.tried += 1
        await self.takes_long(parked.decode())
        self.refuse(parked.decode())
        self.sent.append(parked.decode())


async def test_what_is_not_sent_in_a_moment_when_nothing_may_be_is_sent_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would be lost, with all counted as released."""
    target, allowed = Target(monkeypatch), iter([True, False])
    release = target.release()
    await release.begin(plan(*(overdue(number) for number in range(1, 5))), lambda: next(allowed, True))
    assert target.sent == ["1"]
    await release.go_on(lambda: True)
    assert target.sent == ["1", "2", "3", "4"]


async def test_a_group_with_a_secret_seals_what_it_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and into a timer; a message that has no room for it goes without."""
    target, sealer = Target(monkeypatch), Sealer("k" * 32, "west")
    target.sealer = sealer
    target.raw[3] = b"UNIQ_KEY\x01AB\x02DELAY\x013\x02x\x01" + b"y" * 32_700 + b"\x02"
    release = target.release()
    await release.begin(plan(overdue(1), overdue(2, due=LATE, topic="later"), overdue(3)), lambda: True)
    (_, in_timer), (at_once, crammed) = target.singles[0], target.batches
    assert sealer.proves_release(at_once, b"1", b"AB")
    assert sealer.proves_release(in_timer, b"2", b"AB")
    assert not sealer.proves_release(crammed, b"3", b"AB")
    assert len(crammed) <= properties.MAX_PROPERTIES


async def test_a_timer_that_nobody_may_read_is_given_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of 5.1.4: a release that is repeated would not see what it was given, and give it again."""
    target = Target(monkeypatch)
    target.topics.clear()
    release = target.release()
    await release.begin(plan(overdue(1, due=LATE)), lambda: True)
    assert (target.singles, release.done.in_timer, [*release.done.waiting]) == ([], 0, ["1"])


async def test_after_a_bug_nothing_goes_on_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent after the end would be planned, and sent, again; other lanes are sent to their ends before."""
    target = Target(monkeypatch)

    def refuse(parked: str) -> None:
        if parked == "1":
            raise KeyError(parked)

    async def takes_long(parked: str) -> None:
        await asyncio.sleep(0 if parked == "1" else 0.01)

    target.refuse, target.takes_long = refuse, takes_long
    release = target.release()
    with pytest.raises(KeyError):
        await release.begin(plan(*(overdue(i, topic="ab"[i % 2]) for i in range(1, 7))), lambda: True)
    assert target.sent == ["2", "4", "6"]
    await asyncio.sleep(0.05)
    assert target.tried == 4


async def test_what_no_single_send_takes_is_sent_in_a_batch_or_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Properties that are no UTF-8: no timer of the target can have it; no retry of it can be sent at all."""
    target = Target(monkeypatch)
    target.raw = dict.fromkeys(range(3), b"UNIQ_KEY\x01\xff\x02DELAY\x013\x02")
    release, soon = target.release(), int(time.time() * 1000) + 1_300
    await release.begin(
        plan(overdue(0, topic="%RETRY%g"), overdue(1, topic="%RETRY%g", due=soon), overdue(2, due=soon)),
        lambda: True,
    )
    assert [*release.done.waiting] == ["1", "2"]
    await release.go_on(lambda: True)
    assert target.sent == ["2"]
    ((topic, why), count), *others = release.done.not_released.items()
    assert (topic, count, others) == ("%RETRY%g", 2, [])
    assert "not UTF-8" in why


@pytest.mark.parametrize("number", range(2))
async def test_what_cannot_be_sent_holds_back_nothing_else(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Neither in its own queue nor in others; what is refused again and again is left, so that the rest goes on."""
    target = Target(monkeypatch)
    refusal = [BrokerRefused("a", 320, 17, "topic not exist"), BrokerRefused("a", 320, 1, "who knows")][number]

    def refuse(parked: str) -> None:
        if parked == "1":
            raise refusal

    target.refuse = refuse
    release, waiting = target.release(), [overdue(1), overdue(2), overdue(3, topic="payments")]
    for _ in range(module._ROUNDS - 1):
        with pytest.raises(OutcomeUnknown):
            await release.begin(plan(*(each for each in waiting if each.id not in target.sent)), lambda: True)
        assert sorted(target.sent) == ["2", "3"]
    await release.begin(plan(overdue(1)), lambda: True)
    ((topic, why),) = release.done.not_released
    assert topic == "orders"
    assert refusal.remark in why


async def test_a_broker_that_is_away_holds_back_its_own_queues_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once and later; the order in each queue stays, and nothing that was not sent counts as sent."""
    target = Target(monkeypatch)

    def refuse(parked: str) -> None:
        if parked in away:
            raise Unreachable("a", "away")

    target.refuse, away = refuse, {"1", "4"}
    target.settings = {}
    other, soon = Queue("b", 0), int(time.time() * 1000) + 1_100
    release = target.release()
    with pytest.raises(OutcomeUnknown):
        await release.begin(plan(overdue(1), overdue(2), overdue(3, queue=other)), lambda: True)
    assert target.sent == ["3"]
    late = [overdue(4, due=soon), overdue(5, due=soon), overdue(6, queue=other, due=soon), overdue(7, due=LATE)]
    await release.begin(plan(*late), lambda: True)
    with pytest.raises(OutcomeUnknown):
        await release.go_on(lambda: True)
    assert target.sent == ["3", "6"]
    assert [*release.done.waiting] == ["4", "5", "7"]


async def test_a_broker_that_does_not_say_what_its_timer_takes_holds_back_its_own_queues_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = Target(monkeypatch)

    async def settings(broker: str) -> dict[str, str]:
        if broker == "a":
            raise Unreachable("a", "away")
        return target.settings

    monkeypatch.setattr(module, "read_settings", settings)
    with pytest.raises(ReplicatorError, match="away"):
        await target.release().begin(plan(overdue(1, due=LATE), overdue(2, queue=Queue("b", 0))), lambda: True)
    assert target.sent == ["2"]


async def test_messages_of_a_forgotten_source_broker_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is gone for good: who else has them?"""
    target = Target(monkeypatch)
    release = target.release(queue_map=lambda *_: {})
    assert release.would(plan(overdue(1)))["overdue"] == 1
    await release.begin(plan(overdue(1)), lambda: True)
    assert target.sent == ["1"]


@pytest.mark.parametrize("due", [1, LATE])
async def test_a_released_retry_is_a_copy_that_was_tried_as_often(
    monkeypatch: pytest.MonkeyPatch, due: int
) -> None:
    """Or a route back would take it for the broker's own; and 4.9 would give it up at its last attempt."""
    target = Target(monkeypatch)
    await target.release().begin(plan(overdue(1, topic="%RETRY%g", due=due)), lambda: True)
    (fields, raw), *others = target.singles
    assert not others
    assert (fields["j"], fields["l"]) == ("3", str(2**31 - 1))
    assert properties.find(raw, b"__RPL_RETRIES") == b"3"
    assert (properties.find(raw, b"TIMER_DELIVER_MS") is None) == (due == 1)


def in_virtual_time(monkeypatch: pytest.MonkeyPatch, work: Callable[[int], Coroutine[Any, Any, None]]) -> float:
    """Runs `work`, which gets the time when it begins (ms); for how many seconds."""
    clock = WallClock()
    for each in (module, release_lanes):
        monkeypatch.setattr(each, "time", clock)
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(work(round(clock.ahead * 1000)))
        return runner.get_loop().time()


def test_a_queue_that_is_blocked_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target takes nothing for more queues than requests that it is sent at a time; for the others it does."""
    target, late = Target(monkeypatch), list[float]()
    target.settings, target.line = {}, 0.01
    blocked = [f"blocked{number}" for number in range(2 * module._AT_ONCE)]

    async def work(now: int) -> None:
        def refuse(parked: str) -> None:
            if parked.startswith("blocked"):
                raise BrokerRefused("a", 320, 2, "busy")
            late.append(now / 1000 + asyncio.get_running_loop().time() - int(parked) / 1000)

        target.refuse = refuse
        free = [overdue(now + due) for due in range(3_000, 5_000, 50)]
        held = [overdue(number, topic=name, due=now + 3_000) for number, name in enumerate(blocked)]
        held = [replace(each, id=each.topic) for each in held]
        release = target.release()
        await release.begin(plan(*held, *free), lambda: True)
        with pytest.raises(TargetBlocked):
            await release.go_on(lambda: True)
        assert (len(target.sent), release.done.on_time) == (len(free), len(free))
        assert [*release.done.waiting] == blocked

    in_virtual_time(monkeypatch, work)
    assert max(late) <= 2.0


def test_many_messages_that_are_due_at_once_share_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two requests of 50 ms each, one after the other, would be 100 s for a thousand."""
    target = Target(monkeypatch)
    target.settings, target.line = {}, 0.05

    async def work(now: int) -> None:
        due = [overdue(number, topic=f"t{number % 40}", due=now + 2_000) for number in range(1_000)]
        release = target.release()
        await release.begin(plan(*due), lambda: True)
        assert len(release.done.waiting) == 1_000
        await release.go_on(lambda: True)

    assert in_virtual_time(monkeypatch, work) < 10
    assert target.asked_most == module._AT_ONCE
    for lane in range(40):
        assert [each for each in target.sent if int(each) % 40 == lane] == [*map(str, range(lane, 1_000, 40))]


@pytest.mark.parametrize("at", [0.001, 1.13, 1.17, 4.14])
def test_a_release_that_is_ended_in_the_middle_and_repeated(monkeypatch: pytest.MonkeyPatch, at: float) -> None:
    """Whatever it was at, nothing is sent twice or forgotten, and what it was not sure of it still has."""
    target = Target(monkeypatch)
    target.settings, target.line = {}, 0.05

    async def take(_: str) -> None:
        await asyncio.sleep(0)

    async def work(now: int) -> None:
        due = [overdue(number, topic=f"t{number % 7}", due=now + number // 20 * 1_000) for number in range(100)]
        for wait in (at, 60.0):
            left, release = [each for each in due if each.id not in target.sent], target.release()

            async def released(left: list[Parked] = left, release: Release = release) -> None:
                await release.begin(plan(*left), lambda: True)
                await release.go_on(lambda: True)

            task = asyncio.create_task(released())
            await asyncio.wait([task], timeout=wait)
            task.cancel()
            await asyncio.wait([task])
            assert {each.id for each in left} <= {*release.done.waiting, *target.sent}
            assert len({*release.done.waiting} & {*target.sent}) <= 7, "one in each queue"

    target.takes_long = take
    in_virtual_time(monkeypatch, work)
    assert sorted(target.sent, key=int) == [*map(str, range(100))]


async def _nothing(*_: object) -> None:
    return None
