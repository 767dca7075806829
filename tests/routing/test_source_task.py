"""The source task against a broker in memory: all comes, in order, whatever the sizes, and memory is bounded."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator.aio.clock import now
from replicator.client.connection import Answer, Connection
from replicator.client.line_window import LineWindow
from replicator.client.pull import Subscription
from replicator.errors import ReplicatorError, Unreachable
from replicator.protocol.frame import Frame
from replicator.routing.budget import MemoryBudget
from replicator.routing.channel import Channel, Chunk
from replicator.routing.faults import SourceGap, SourceLost, SourceReset
from replicator.routing.look_back import LookBack
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.queue_map import Queue
from replicator.routing.source_task import SourceTask
from replicator.routing.state import QueueState
from tests.support.stored import stored

MIB = 1024 * 1024
OPTIONS = RouteOptions(identity=Identity("east", "west"))


@dataclass
class Broker:
    """Answers pulls when told to, with at most `most` bytes or one message; has nothing before `low`.

    Of a filtered queue each `every`th message passes.
    """

    sizes: list[int]
    most: int
    low: int = 0
    properties: bytes = b""
    every: int = 1
    address: str = "broker:1"
    line: LineWindow = field(default_factory=lambda: LineWindow(lambda: 0.0))
    asked: list[tuple[Mapping[str, str], Callable[[Answer], None]]] = field(default_factory=list)

    def request(
        self, code: int, fields: Mapping[str, str], on_answer: Callable[[Answer], None], *, timeout: float
    ) -> None:
        assert code == 11
        assert timeout > 0
        self.asked.append((fields, on_answer))

    def answerable(self) -> list[int]:
        """The pulls that a broker would answer now: not the ones that wait for a message."""
        high = len(self.sizes)
        return [i for i, (fields, _) in enumerate(self.asked) if int(fields["queueOffset"]) != high]

    def answer(self, index: int) -> None:
        fields, on_answer = self.asked.pop(index)
        begin, high = int(fields["queueOffset"]), len(self.sizes)
        if begin < self.low or begin > high:
            on_answer(self._frame(21, b"", self.low if begin < self.low else high))
            return
        body, end = b"", begin
        while end < high and end - begin < int(fields["maxMsgNums"]):
            if end % self.every == 0:
                message = stored(end, time=700 + end, size=self.sizes[end], properties=self.properties)
                if body and len(body) + len(message) > self.most:
                    break
                body += message
            end += 1
        on_answer(self._frame(0 if body else 20, body, end))

    def _frame(self, code: int, body: bytes, next_offset: int) -> Frame:
        ends = {"nextBeginOffset": next_offset, "minOffset": self.low, "maxOffset": len(self.sizes)}
        return Frame(code, 1, 1, "", {name: str(value) for name, value in ends.items()}, body)


@dataclass
class Reading:
    """A source task, and a sink that takes what comes."""

    broker: Broker
    budget: MemoryBudget
    offset: int = 0
    options: RouteOptions = OPTIONS
    read: list[int] = field(default_factory=list)
    most_used: int = 0

    def __post_init__(self) -> None:
        self.state = QueueState("T", Queue("a", 0), Queue("b", 0))
        self.channel = Channel(self.budget)
        self.task = SourceTask(
            cast("Connection", self.broker),
            self.channel,
            offset=self.offset,
            state=self.state,
            options=self.options,
            budget=self.budget,
            from_master=True,
            sure_at=now(),
        )

    def drain(self) -> None:
        """The sink acknowledges all that has come."""
        self.most_used = max(self.most_used, self.budget.used)
        while self.channel.chunks:
            self.read += [message.queue_offset for message in self.channel.chunks[0].messages]
            self.channel.release(self.channel.pop())
        self.task.pump()


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 3))
def test_queues_that_share_a_budget_never_stand_still(seed: int, count: int) -> None:
    """Messages of mixed sizes leave holes; what fills them is pulled even while others wait for memory."""
    rng = random.Random(seed)
    budget = MemoryBudget(MIB)
    readings = []
    for _ in range(count):
        sizes = [rng.choice([100, 1500, 1500, 3000, 6000]) for _ in range(rng.randint(50, 800))]
        readings.append(Reading(Broker(sizes, rng.choice([4096, 16384, 65536])), budget))
    for reading in readings:
        reading.task.start()
    while unread := [reading for reading in readings if len(reading.read) < len(reading.broker.sizes)]:
        ready = [reading for reading in readings if reading.broker.answerable()]
        assert ready, f"{len(unread)} queues stand still, {budget.used} bytes are in use"
        reading = rng.choice(ready)
        reading.broker.answer(rng.choice(reading.broker.answerable()))
        if rng.random() < 0.7 or not any(each.broker.answerable() for each in readings):
            for each in readings:
                each.drain()
    for reading in readings:
        assert reading.read == list(range(len(reading.broker.sizes)))
        reading.task.stop()
    assert budget.used == 0


def test_what_comes_little_by_little_is_not_read_without_room() -> None:
    """At the ends of many queues, while the target stands still; all comes when it goes on."""
    budget = MemoryBudget(64 * 1024)
    readings = [Reading(Broker([], 65536), budget) for _ in range(20)]
    for reading in readings:
        reading.task.start()
    for _ in range(50):
        for reading in readings:
            reading.broker.sizes.append(1000)
            for _ in reading.broker.answerable():
                reading.broker.answer(0)
    one = len(stored(0, size=1000))
    assert budget.limit <= budget.used < budget.limit + len(readings) * one
    while any(len(reading.read) < 50 for reading in readings):
        for reading in readings:
            reading.drain()
        for reading in readings:
            for _ in reading.broker.answerable():
                reading.broker.answer(0)
    for reading in readings:
        assert reading.read == list(range(50))
        reading.task.stop()
    assert budget.used == 0


def test_what_a_pull_may_bring_has_its_place() -> None:
    """Also where one asks for more than the broker gave before, and gets it."""
    budget = MemoryBudget(400 * 1024)
    reading = Reading(Broker([900] * 20_000, 128 * 1024), budget)
    reading.task.start()
    longest = 0
    while len(reading.read) < 20_000:
        while reading.broker.answerable():
            longest = max(longest, *(int(fields["maxMsgNums"]) for fields, _ in reading.broker.asked))
            reading.broker.answer(0)
            assert budget.used <= budget.limit
        reading.drain()
    assert longest > 100
    reading.task.stop()
    assert budget.used == 0


@pytest.mark.parametrize("most", [1, 2, 4])
def test_no_more_pulls_than_told_are_under_way(most: int) -> None:
    """While the sink waits for messages, and while it has more than enough of them."""
    options = replace(OPTIONS, pulls_in_flight=most, batch_messages=50)
    reading = Reading(Broker([100] * 3000, 64 * 1024), MemoryBudget(24 * MIB), options=options)
    reading.task.start()
    under_way = []
    while reading.broker.answerable():
        reading.broker.answer(0)
        under_way.append(len(reading.broker.asked))
        if reading.state.progress.read_to % 1024 < 512:
            reading.drain()
    reading.drain()
    assert max(under_way) == most
    assert reading.read == list(range(3000))
    reading.task.stop()


def one(sizes: list[int], **more: object) -> Reading:
    broker_more = {name: more.pop(name) for name in ("low", "properties") if name in more}
    reading = Reading(Broker(sizes, 65536, **broker_more), MemoryBudget(24 * MIB), **more)  # type: ignore[arg-type]
    reading.task.start()
    return reading


async def failure(reading: Reading) -> Exception:
    """What ends the channel, after all that came before it."""
    while reading.broker.answerable():
        reading.broker.answer(reading.broker.answerable()[0])
    while reading.channel.chunks:
        reading.read += [message.queue_offset for message in reading.channel.chunks[0].messages]
        reading.channel.release(reading.channel.pop())
    with pytest.raises(ReplicatorError) as caught:
        await reading.channel.ready()
    assert reading.budget.used == 0
    return caught.value


async def test_what_retention_took_is_a_gap() -> None:
    """From the position to the first message that is left."""
    error = await failure(one([10] * 50, low=20, offset=5))
    assert isinstance(error, SourceGap)
    assert (error.start, error.end) == (5, 20)


@pytest.mark.parametrize(("low", "offset", "has"), [(20, 5, "no longer has"), (0, 70, "does not yet have")])
async def test_neither_beginning_nor_end_of_a_slave_is_believed(low: int, offset: int, has: str) -> None:
    """It may have been made later than its master, or keep less: what it lacks waits for that."""
    reading = one([10] * 50, low=low, offset=offset)
    reading.task._from_master = False
    error = await failure(reading)
    assert isinstance(error, SourceLost)
    assert has in str(error)


async def test_a_queue_that_ends_before_the_position_was_reset() -> None:
    """On the master, where nothing can be late."""
    error = await failure(one([10] * 50, offset=70))
    assert isinstance(error, SourceReset)
    assert (error.position, error.max_offset) == (70, 50)


async def test_a_lost_connection_ends_the_task() -> None:
    """All reserved memory is free again."""
    reading = one([10] * 500)
    reading.broker.answer(0)
    _, on_answer = reading.broker.asked.pop()
    on_answer(Unreachable("broker:1", "closed by the peer"))
    error = await failure(reading)
    assert isinstance(error, SourceLost)
    assert "closed by the peer" in str(error)


async def test_a_bug_ends_one_queue_and_not_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reaches the sink, which ends with it; the memory is free again."""
    reading = one([10] * 500)
    reading.broker.answer(0)
    reading.drain()

    def broken(_: Channel, __: Chunk) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Channel, "put", broken)
    reading.broker.answer(0)
    with pytest.raises(ZeroDivisionError):
        await reading.channel.ready()
    assert reading.budget.used == 0


@pytest.mark.parametrize(
    ("origin", "way", "passes"),
    [
        *[(b"west", b"x", False), (b"north", b"x", True), (b"east", b"x", True), (b"\xff\xfe", b"x", True)],
        *[(b"", b"x", True), (b"north", b"west", False), (b"north", b"x/west", False), (b"north", b"x/y", True)],
    ],
)
def test_a_copy_that_has_been_at_the_target_does_not_go_back(origin: bytes, way: bytes, passes: bool) -> None:
    """It was born there, or came that way. Others pass, whatever bytes their origin has; what stays is counted."""
    last, _, via = way.partition(b"/")
    named = b"__RPL_VIA\x01/" + via + b"\x02" if via else b""
    reading = one(
        [10],
        properties=b"__RPL_ORIGIN\x01" + origin + b"\x02" + named + b"__RPL_SOURCE\x01" + last + b"/a/0/1/2\x02",
    )
    reading.broker.answer(0)
    assert reading.channel.chunks[0].last_stored == (0 if passes else 700)  # else its copy tells
    reading.drain()
    assert reading.read == ([0] if passes else [])
    assert reading.state.counters.skipped.get("loop", 0) == (0 if passes else 1)
    reading.task.stop()
    assert reading.budget.used == 0


@pytest.mark.parametrize("reason", ["loop", "filter"])
def test_what_is_read_again_is_skipped_once(reason: str) -> None:
    """After the target was away, reading begins at the position again, in the middle of what was left out."""
    options = replace(OPTIONS, subscription=Subscription("TAG", "rare")) if reason == "filter" else OPTIONS
    loop = b"__RPL_ORIGIN\x01west\x02__RPL_SOURCE\x01west/a/0/1/2\x02" if reason == "loop" else b""
    broker = Broker([10] * 30, 65536, properties=loop, every=10 if reason == "filter" else 1)
    left_out = 27 if reason == "filter" else 30
    first = Reading(broker, MemoryBudget(MIB), options=options)
    first.task.start()
    broker.answer(0)
    assert first.state.counters.skipped == {reason: left_out}
    first.task.stop()
    broker.asked.clear()
    broker.sizes += [10] * 10
    again = Reading(broker, MemoryBudget(MIB), offset=20, options=options)
    again.state.counters.restore(first.state.counters.anomalies())
    again.task.start()
    broker.answer(0)
    assert again.state.counters.skipped == {reason: left_out + (9 if reason == "filter" else 10)}
    again.state.progress.position = 20
    again.state.reset()  # others are at these offsets now
    assert again.state.counters.skipped_to == 0
    again.task.stop()


def test_what_a_filter_leaves_out_takes_no_memory() -> None:
    """A hundredth of 10 KiB passes: all queues have pulls under way, not two of them."""
    options = replace(OPTIONS, subscription=Subscription("TAG", "rare"))
    budget = MemoryBudget(24 * MIB)
    readings = [
        Reading(Broker([10240] * 60_000, 256 * 1024, every=100), budget, options=options) for _ in range(16)
    ]
    for reading in readings:
        reading.task.start()
    for _ in range(20):
        for reading in readings:
            if reading.broker.answerable():
                reading.broker.answer(reading.broker.answerable()[0])
                reading.drain()
    assert min(len(reading.broker.answerable()) for reading in readings) >= 2
    for reading in readings:
        assert reading.read == list(range(0, reading.state.progress.read_to, 100))
        reading.task.stop()
    assert budget.used == 0


async def test_a_queue_that_was_recreated_during_a_silence_is_not_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has grown beyond the offset that the held pull asks for: the broker answers as if nothing had happened."""
    time = [0.0]
    monkeypatch.setattr(LookBack.__init__, "__kwdefaults__", {"clock": lambda: time[0]})
    time[0] = now()
    reading = Reading(Broker([10] * 5, 4096), MemoryBudget(MIB))
    reading.task.start()
    while reading.broker.answerable():
        reading.broker.answer(0)
        reading.drain()
    assert reading.read == [0, 1, 2, 3, 4]
    progress = reading.state.progress
    progress.offsets.add(0, 70, 5)
    progress.position, progress.store_timestamp = 5, 4
    time[0] += 10
    reading.broker.sizes += [10]
    reading.broker.answer(0)  # the held one
    (fields, _), *_ = reading.broker.asked
    assert fields["queueOffset"] == "4"
    reading.broker.answer(0)  # that is not what was read
    assert isinstance(await failure(reading), SourceReset)
    assert reading.read == [0, 1, 2, 3, 4]
