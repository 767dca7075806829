"""The pull window against a broker that answers as little, as late and in as odd an order as it may."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from replicator.client.pull import Pulled
from replicator.protocol.codes import Response
from replicator.protocol.message import StoredMessage
from replicator.routing.window import Pull, PullWindow


def message(offset: int) -> StoredMessage:
    return StoredMessage(offset, 0, 0, 0, 0, 0, 0, bytes(4), b"")


@dataclass
class Broker:
    """A queue [`low`, `high`), of which the broker gives what passes the filter, in pieces of random size."""

    rng: random.Random
    filtered: bool
    low: int = 0
    high: int = 0
    racy: bool = True
    longest: int = 32

    def passes(self, offset: int) -> bool:
        return not self.filtered or offset * 2654435761 % 7 < 3

    def answer(self, pull: Pull) -> Pulled:
        offset, rng = pull.offset, self.rng
        if offset < self.low:
            return self._say(Response.PULL_OFFSET_MOVED, [], self.low)
        if offset > self.high:
            return self._say(Response.PULL_OFFSET_MOVED, [], self.high)
        if offset == self.high:
            return self._say(Response.PULL_NOT_FOUND, [], offset)
        if self.racy and rng.random() < 0.1:
            # The message was not there yet when the broker looked for it.
            return Pulled(Response.PULL_NOT_FOUND, "", [], offset, self.low, max(offset, self.low), 0)
        found: list[StoredMessage] = []
        limit, end = min(pull.count, rng.randint(1, self.longest)), offset
        scanned = rng.randint(1, 80)
        while end < self.high and len(found) < limit and end - offset < scanned:
            if self.passes(end):
                found.append(message(end))
            end += 1
        return self._say(Response.SUCCESS if found else Response.PULL_RETRY_IMMEDIATELY, found, end)

    def _say(self, code: Response, found: list[StoredMessage], next_offset: int) -> Pulled:
        return Pulled(code, "", found, next_offset, self.low, self.high, 0)


@dataclass
class Reader:
    """Drives a window as the source task does, and checks all that comes out of it."""

    broker: Broker
    window: PullWindow
    expected: int
    delivered: list[int] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    under_way: list[tuple[Pull, Pulled | None]] = field(default_factory=list)
    issued: int = 0
    finished: int = 0

    def issue(self) -> None:
        """All pulls that the window wants now; some are answered by the broker before what comes next."""
        while (pull := self.window.next_pull()) is not None:
            assert pull.count >= 1
            self.issued += 1
            early = self.broker.rng.random() < 0.5 and not pull.wait
            self.under_way.append((pull, self.broker.answer(pull) if early else None))
        assert self.under_way, "nothing is under way, so nothing will ever happen"
        assert len(self.under_way) == self.window.in_flight - sum(p.answer is not None for p in self.window._pulls)

    def step(self) -> None:
        """One of the answers arrives."""
        index = self.broker.rng.randrange(len(self.under_way))
        pull, answer = self.under_way.pop(index)
        for done in self.window.answered(pull, answer or self.broker.answer(pull)):
            self.finished += 1
            if done.answer is not None and not self.take(done.offset, done.answer):
                return

    def take(self, start: int, answer: Pulled) -> bool:
        assert start == self.expected, "what is delivered continues what was delivered"
        if answer.code == Response.PULL_OFFSET_MOVED:
            assert self.broker.low > start, "only retention moves offsets here"
            self.finished += len(self.window.abandon())
            assert self.finished == self.issued
            self.gaps.append((start, self.broker.low))
            self.expected = self.broker.low
            self.under_way.clear()
            self.window = PullWindow(self.expected, filtered=self.broker.filtered)
            return False
        assert answer.next_offset > start, "an answer that is given out brings progress"
        wanted = [offset for offset in range(start, answer.next_offset) if self.broker.passes(offset)]
        assert [message.queue_offset for message in answer.messages] == wanted
        self.delivered += wanted
        self.expected = answer.next_offset
        assert self.window.head >= self.expected
        return True


def reader(seed: int, *, filtered: bool) -> Reader:
    rng = random.Random(seed)
    first = rng.choice([0, 0, 5, 1000])
    broker = Broker(rng, filtered, low=first, high=first + rng.randint(0, 300))
    broker.longest = rng.choice([1, 8, 32, 1024])
    return Reader(broker, PullWindow(first, filtered=filtered), first)


@settings(max_examples=150)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_the_prefix_is_delivered_once_in_order_without_a_gap(seed: int, filtered: bool, retention: bool) -> None:
    """And it always makes progress, whatever the broker's limits, delays and races; retention shows as a gap."""
    run = reader(seed, filtered=filtered)
    broker, rng = run.broker, run.broker.rng
    for _ in range(rng.randint(0, 120)):
        run.window.depth = rng.randint(1, 16)
        run.issue()
        run.step()
        if rng.random() < 0.3:
            broker.high += rng.randint(1, 60)
        if retention and rng.random() < 0.05:
            broker.low = rng.randint(broker.low, broker.high)
    broker.racy = False
    for _ in range(20 * (broker.high - run.expected) + 200):
        run.issue()
        waiting = [pull for pull, _ in run.under_way if pull.wait and pull.offset == broker.high]
        if run.expected == broker.high and len(waiting) == len(run.under_way):
            break
        run.step()
    assert run.expected == broker.high == run.window.head
    lost = {offset for start, end in run.gaps for offset in range(start, end)}
    first = min([run.delivered[0] if run.delivered else broker.high, *(start for start, _ in run.gaps)])
    everything = [o for o in range(first, broker.high) if broker.passes(o) and o not in lost]
    assert run.delivered == everything
    assert run.issued == run.finished + run.window.in_flight


def pulls(window: PullWindow) -> Iterator[Pull]:
    """All that it wants to have under way now."""
    while (pull := window.next_pull()) is not None:
        yield pull


def test_it_waits_at_the_end_with_one_pull() -> None:
    """A long poll, and none beside it; the first pull of all is not held, so that the end is known at once."""
    window = PullWindow(7)
    (first,) = pulls(window)
    assert (first.offset, first.wait) == (7, False)
    window.answered(first, Pulled(Response.PULL_NOT_FOUND, "", [], 7, 0, 7, 0))
    (second,) = pulls(window)
    assert (second.offset, second.wait) == (7, True)


def test_pulls_run_ahead_of_answers_up_to_the_depth() -> None:
    """Their offsets follow from the stride, and they stop at the end of the queue."""
    window = PullWindow(0)
    first = window.next_pull()
    assert first is not None
    window.answered(first, Pulled(Response.SUCCESS, "", [message(i) for i in range(32)], 32, 0, 100, 0))
    window.depth = 8
    assert [pull.offset for pull in pulls(window)] == [32, 64, 96]
    window = PullWindow(0)
    window.max_offset = 10_000
    window.depth = 4
    assert [pull.offset for pull in pulls(window)] == [0, 32, 64, 96]


def test_a_short_answer_becomes_the_stride_and_its_hole_is_pulled_next() -> None:
    """As when messages come from disk: eight at a time."""
    window = PullWindow(0)
    window.max_offset = 1000
    first, second = window.next_pull(), window.next_pull()
    assert first is not None
    assert second is not None
    done = window.answered(first, Pulled(Response.SUCCESS, "", [message(i) for i in range(8)], 8, 0, 1000, 0))
    assert done == [first]
    hole = window.next_pull()
    assert hole is not None
    assert (hole.offset, hole.count, window.stride) == (8, 8, 8)


def test_a_broker_that_gives_more_is_asked_for_more() -> None:
    """After some whole answers one pull asks for all; what comes becomes the stride."""
    window = PullWindow(0)
    window.max_offset = 100_000
    for _ in range(60):
        pull = window.next_pull()
        assert pull is not None
        end = pull.offset + min(pull.count, 100)
        window.answered(
            pull, Pulled(Response.SUCCESS, "", [message(i) for i in range(pull.offset, end)], end, 0, 100_000, 0)
        )
        window.abandon()
    assert window.stride == 100


def test_abandoned_pulls_are_given_back_once() -> None:
    """So that what was reserved for them can be released."""
    window = PullWindow(0)
    window.max_offset = 1000
    under_way = [window.next_pull(), window.next_pull()]
    assert window.abandon() == under_way
    assert window.abandon() == []
    assert window.in_flight == 0
