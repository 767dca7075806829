"""What a line carries is found out by itself: no more is under way than it needs, and never nothing."""

from __future__ import annotations

import math
from collections import deque
from functools import partial
from typing import Final

import pytest

from replicator.client.line_window import Crossing, LineWindow

PULL: Final = 32 * 1024


class SimulatedLine:
    """Answers of `PULL` bytes come one after the other, `rate` bytes a second, each after `latency` at least.

    `queues` sources make pulls as fast as they may, each up to `depth` at once. What arrives is seen all `bunch`
    seconds only, as where buffers fill up on the way.
    """

    def __init__(
        self, rate: float, latency: float, *, queues: int = 8, depth: int = 64, bunch: float = 0.0
    ) -> None:
        self.window = LineWindow(lambda: self.now)
        self.rate, self.latency, self.depth, self.bunch = rate, latency, depth, bunch
        self.now = self.free_at = 0.0
        self.delivered = 0
        self.most_waited = 0.0
        self._in_line = [False] * queues
        self._under_way = [0] * queues
        self._coming: deque[tuple[float, int, Crossing]] = deque()

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        for queue in range(len(self._in_line)):
            self._pump(queue)
        while self._coming and self._coming[0][0] <= until:
            self.now, queue, crossing = self._coming.popleft()
            self.delivered += PULL
            self.most_waited = max(self.most_waited, self.now - crossing.began)
            self._under_way[queue] -= 1
            self.window.end(crossing, PULL)
            self._pump(queue)
        self.now = until

    def _pump(self, queue: int) -> None:
        while self._under_way[queue] < self.depth and not self._in_line[queue]:
            if not self.window.has_room:
                self._in_line[queue] = True
                self.window.wait(lambda: self._ready(queue))
                return
            self._send(queue)

    def _ready(self, queue: int) -> None:
        self._in_line[queue] = False
        self._send(queue)
        self._pump(queue)

    def _send(self, queue: int) -> None:
        self._under_way[queue] += 1
        arrives = self.now + self.latency
        self.free_at = max(self.free_at, arrives) + PULL / self.rate
        seen = math.ceil(self.free_at / self.bunch) * self.bunch if self.bunch else self.free_at
        self._coming.append((seen, queue, self.window.begin(PULL)))


@pytest.mark.parametrize("latency", [0.001, 0.08, 0.4])
@pytest.mark.parametrize("rate", [125e3, 250e3, 1e7, 1e8])
def test_the_line_is_used_and_little_waits_in_front_of_it(rate: float, latency: float) -> None:
    line = SimulatedLine(rate, latency)
    line.run(10)  # in which it is found out
    line.delivered, line.most_waited = 0, 0.0
    line.run(20)
    assert line.delivered > 0.9 * min(20 * rate, 20 / latency * 8 * 64 * PULL)
    assert line.most_waited < 2 * latency + 0.6 + 3 * PULL / rate


@pytest.mark.parametrize("bunch", [0.1, 0.3, 0.5])
def test_what_arrives_in_bunches_is_no_faster_line(bunch: float) -> None:
    rate, latency = 250e3, 0.1
    line = SimulatedLine(rate, latency, bunch=bunch)
    line.window.measured(latency)
    for _ in range(60):
        line.run(0.5)
        assert line.window.limit < 1.35 * rate * (latency + 0.5) or line.now < 5
    assert line.delivered > 0.8 * 30 * rate


def test_the_latency_is_known_before_the_line_is_full() -> None:
    """Else the first answers, which wait for each other, make it look longer for good."""
    line = SimulatedLine(250e3, 0.1)
    line.window.measured(0.1)
    line.run(30)
    line.most_waited = 0.0
    line.run(10)
    assert line.most_waited < 0.1 + 0.5 + 3 * PULL / 250e3


def test_a_line_that_becomes_poor_and_good_again() -> None:
    line = SimulatedLine(1e7, 0.05)
    line.run(10)
    line.rate = 250e3
    line.run(40)
    line.most_waited = 0.0
    line.run(10)
    assert line.most_waited < 1.2
    line.rate, line.delivered = 1e7, 0
    line.run(10)
    assert line.delivered > 0.5 * 10 * 1e7


def test_little_to_read_says_nothing_about_the_line() -> None:
    """One small answer at a time does not narrow the window for the burst that follows."""
    now = iter(range(1000))
    window = LineWindow(lambda: next(now) * 0.08)
    first = window.limit
    for _ in range(100):
        window.end(window.begin(2048), 300)
    assert window.limit == first


def test_one_may_always_be_under_way() -> None:
    window = LineWindow(lambda: 0.0)
    crossing = window.begin(1 << 30)
    assert not window.has_room
    window.end(crossing, 0)
    assert window.has_room


def test_they_wait_in_turn() -> None:
    window, order = LineWindow(lambda: 0.0), list[int]()

    def ready(each: int) -> None:
        order.append(each)
        window.begin(window.limit)

    crossing = window.begin(window.limit)
    for each in range(3):
        window.wait(partial(ready, each))
    assert not window.has_room
    window.end(crossing, 0)
    assert order == [0]  # the others do not fit beside it


def test_one_that_gives_its_turn_up_lets_the_next_go() -> None:
    window, order = LineWindow(lambda: 0.0), list[int]()
    crossing = window.begin(window.limit)
    window.wait(lambda: order.append(0))  # it was stopped meanwhile
    window.wait(lambda: order.append(1))
    window.end(crossing, 0)
    assert order == [0, 1]
