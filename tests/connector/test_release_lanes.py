"""Messages of many queues, each when it is due and in its order, whatever holds up the other queues."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

import pytest

from replicator.connector import release_lanes as module
from replicator.connector.release_lanes import Lane, Lanes, Refused
from replicator.errors import Unreachable
from replicator.routing.parked import Parked, Place
from replicator.routing.queue_map import Queue
from tests.support.virtual_time import VirtualLoop, WallClock

#: Seconds after its due time by which a message is sent at the latest.
BOUND = 2.0


def parked(name: str, lane: str, due: float, clock: WallClock) -> Parked:
    """A message that is due after `due` seconds of the virtual loop."""
    return Parked(
        id=name,
        kind="delay",
        topic=lane,
        queue=Queue("a", 0),
        due=round((clock.ahead + due) * 1000),
        unique=b"",
        fingerprint=b"",
        rolled=0,
        parked_at=0,
        place=Place("parked", Queue("a", 0), 0),
    )


class Target:
    """Takes messages, named `lane.number`, each `takes` seconds; `sent` says when it had each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = WallClock()
        monkeypatch.setattr(module, "time", self.clock)
        self.sent: dict[str, float] = {}
        self.busy: set[str] = set()
        self.takes: Callable[[str], float] = lambda _: 0.1
        self.fails: dict[str, Exception] = {}
        self.allowed = True

    def lanes(self, due: Iterable[tuple[str, float]]) -> Lanes:
        """Messages by name and due time."""
        return Lanes(
            [
                parked(name, name.split(".")[0], at, self.clock)
                for name, at in sorted(due, key=lambda each: each[1])
            ],
            self.send,
            lambda: self.allowed,
        )

    async def send(self, message: Parked) -> None:
        assert message.topic not in self.busy, "one message of a lane at a time"
        self.busy.add(message.topic)
        await asyncio.sleep(self.takes(message.id))
        self.busy.remove(message.topic)
        if error := self.fails.get(message.id):
            raise error
        self.sent[message.id] = asyncio.get_running_loop().time()

    async def offer(self, message: Parked, late: Lane) -> None:
        if message.due > self.clock.time() * 1000:
            late.append(message)
        else:
            await self.send(message)


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> float:
    """Runs `work` in virtual time; for how many seconds."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(work())
        return runner.get_loop().time()


async def within(seconds: float, work: Awaitable[None]) -> None:
    async with asyncio.timeout(seconds):
        await work


def test_a_lane_that_is_held_up_for_long_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many, some of which have messages every second."""
    target = Target(monkeypatch)
    target.takes = lambda name: 12.0 if name.startswith("slow") else 0.1
    slow = {f"slow{lane}.{number}": 1.0 for lane in range(20) for number in range(3)}
    due = {f"{lane}.{number}": number + lane / 100 for lane in range(50) for number in range(60)}
    run(lambda: target.lanes((due | slow).items()).finish())
    assert target.sent.keys() == {*due, *slow}
    assert max(target.sent[name] - at for name, at in due.items()) <= BOUND
    assert target.sent["slow0.2"] == pytest.approx(37, abs=0.1)


def test_each_lane_keeps_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though later messages would be quicker, and all are due at once."""
    target = Target(monkeypatch)
    target.takes = lambda name: 1.0 / (1 + int(name.split(".")[1]))
    run(lambda: target.lanes([(f"{lane}.{number}", 1.0) for lane in range(3) for number in range(5)]).finish())
    for lane in range(3):
        assert [name for name in target.sent if name.startswith(f"{lane}.")] == [f"{lane}.{i}" for i in range(5)]


def test_a_clock_that_is_set_ahead_makes_nothing_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after the machine was suspended."""
    target = Target(monkeypatch)

    async def work() -> None:
        asyncio.get_running_loop().call_later(10, setattr, target.clock, "ahead", target.clock.ahead + 3_600)
        await target.lanes([("a.0", 3_600.0)]).finish()

    run(work)
    assert 10 <= target.sent["a.0"] <= 10 + BOUND


def test_a_failure_ends_its_own_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is raised as soon as nothing is due; what is due while another lane still sends is sent."""
    target = Target(monkeypatch)
    target.fails = {"bad.0": Unreachable("a", "away"), "odd.0": Refused("not now")}
    target.takes = lambda name: 5.0 if name == "long.0" else 0.1
    names = {"bad.0": 1.0, "bad.1": 1.0, "odd.0": 1.0, "odd.1": 1.0, "long.0": 1.0, "good.0": 3.0, "later.0": 60.0}

    async def work() -> None:
        with pytest.raises(Unreachable):
            await target.lanes(names.items()).finish()

    assert run(work) < 7
    assert target.sent.keys() == {"odd.1", "long.0", "good.0"}
    assert target.sent["good.0"] < 3 + BOUND


def test_what_is_refused_is_raised_where_nothing_else_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(monkeypatch)
    target.fails = {"odd.0": Refused("not now"), "bug.0": KeyError("a bug")}

    async def work(names: list[tuple[str, float]], error: type[Exception]) -> None:
        with pytest.raises(error):
            await target.lanes(names).finish()

    run(lambda: work([("odd.0", 0.0), ("good.0", 0.0)], Refused))
    run(lambda: work([("odd.0", 0.0), ("bug.0", 1.0), ("good.1", 0.0)], Refused))
    run(lambda: work([("odd.0", 0.0), ("bug.0", 0.0), ("good.2", 0.0)], KeyError))
    assert target.sent.keys() == {"good.0", "good.1", "good.2"}


def test_it_ends_soon_once_nothing_may_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though other messages are due later; what is being sent is waited for."""
    target = Target(monkeypatch)

    async def work() -> None:
        asyncio.get_running_loop().call_later(4.95, setattr, target, "allowed", False)
        await target.lanes([("a.0", 4.9), ("a.1", 4.9), ("b.0", 9.0)]).finish()

    assert run(work) < 6.5
    assert target.sent.keys() == {"a.0"}


@pytest.mark.parametrize("offers", [False, True])
def test_nothing_is_begun_once_it_was_forbidden(monkeypatch: pytest.MonkeyPatch, offers: bool) -> None:
    """Be it for a moment, whoever asks in it: another worker may send by then."""
    for forbidden in range(12):
        target = Target(monkeypatch)
        answers = [True] * forbidden + [False]
        begun = list[int]()

        def may_go_on(answers: list[bool] = answers) -> bool:
            return answers.pop(0) if answers else True

        async def send(message: Parked, begun: list[int] = begun, answers: list[bool] = answers) -> None:
            begun.append(len(answers))
            await asyncio.sleep(1.0 if message.topic == "long" else 0.1)

        async def offer(message: Parked, late: Lane, send: Any = send, now: float = target.clock.ahead) -> None:
            await send(message) if message.due <= now * 1000 else late.append(message)

        names = [("long.0", 0.0)]
        names += [(f"{lane}.{number}", at) for lane, at in (("over", 0.0), ("late", 0.1)) for number in range(6)]
        lanes = Lanes([parked(name, name[:4], at, target.clock) for name, at in names], send, may_go_on)
        run(lambda lanes=lanes, offer=offer: lanes.offer(offer) if offers else lanes.finish())  # type: ignore[misc]
        assert 0 not in begun
        assert len(begun) < len(names)


def test_it_can_be_cancelled_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing goes on by itself then."""
    target = Target(monkeypatch)
    names = [(f"{lane}.{number}", lane / 10 + number) for lane in range(10) for number in range(5)]

    async def work() -> None:
        task = asyncio.create_task(target.lanes(names).finish())
        await asyncio.sleep(2.45)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        before = len(target.sent)
        await asyncio.sleep(60)
        assert 0 < len(target.sent) == before < len(names)
        assert len(target.busy) == 1, "one was being sent"

    run(work)


def test_what_becomes_due_while_others_are_offered_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would wait for a lane with a thousand overdue messages. The offer ends with that lane."""
    target = Target(monkeypatch)
    target.takes = lambda name: 10.0 if name == "long.0" else 0.1
    names = {"long.0": 0.0, "late.0": 0.0, "late.1": 3.0, "late.2": 60.0}
    names |= {f"endless.{number}": number * 0.1 for number in range(1, 10_000)}
    run(lambda: within(11.0, target.lanes(names.items()).offer(target.offer)))
    assert {"long.0", "late.0", "late.1"} <= target.sent.keys()
    assert target.sent["late.1"] < 3 + BOUND
    assert "late.2" not in target.sent


def test_a_failure_while_others_are_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """All others are offered; what was put off behind it is left to the next plan, so that the order is kept."""
    target = Target(monkeypatch)
    target.fails = {"bad.0": Unreachable("a", "away")}
    target.takes = lambda name: 5.0 if name == "long.0" else 0.1

    async def work() -> None:
        with pytest.raises(Unreachable):
            await target.lanes([("bad.0", 0.0), ("bad.1", 1.0), ("long.0", 0.0), ("long.1", 0.0)]).offer(
                target.offer
            )

    run(work)
    assert [*target.sent] == ["long.0", "long.1"]
