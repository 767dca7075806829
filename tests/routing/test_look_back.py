"""Whether a queue that is read after a silence is still the same one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import pytest

from replicator.client.connection import Answer, Connection
from replicator.client.pull import Pulled
from replicator.errors import ReplicatorError, Unreachable
from replicator.protocol.codes import Response
from replicator.protocol.frame import Frame
from replicator.routing.faults import SourceLost, SourceReset
from replicator.routing.look_back import UNWATCHED, LookBack
from replicator.routing.queue_map import Queue
from replicator.routing.queue_progress import Seen
from replicator.routing.state import QueueState
from tests.support.stored import stored

#: The answer to a pull at offset 5 with one message.
ONE = Pulled(Response.SUCCESS, "", [], 6, 0, 6, 100)


class Broker:
    """Has six messages, stored at 700 + their offset + `later` (ms), and keeps those from `low` on."""

    address = "source:10911"

    def __init__(self) -> None:
        self.later = self.low = 0
        self.asked: list[int] = []
        self.failure: Answer | None = None

    def request(
        self, _code: int, fields: Mapping[str, str], on_answer: Callable[[Answer], None], *, timeout: float
    ) -> None:
        at = int(fields["queueOffset"])
        self.asked.append(at)
        ends = {"nextBeginOffset": at + 1, "minOffset": self.low, "maxOffset": 6}
        code, body = Response.SUCCESS, stored(at, time=700 + at + self.later)
        if at < self.low:
            code, body = Response.PULL_OFFSET_MOVED, b""
        frame = Frame(code, 1, 1, "", {name: str(value) for name, value in ends.items()}, body)
        on_answer(frame if self.failure is None else self.failure)


class QuietQueue:
    """A look back at a queue that is at offset 5, with what was said last."""

    def __init__(self) -> None:
        self.broker, self.now = Broker(), 0.0
        self.state = QueueState("T", Queue("a", 0), Queue("b", 0))
        self.state.progress.position, self.state.progress.store_timestamp = 5, 703
        self.state.progress.offsets.add(0, 70, 4)
        connection = cast("Connection", self.broker)
        self.look_back = LookBack(connection, self.state, sure_at=0.0, clock=lambda: self.now)

    def ask(self) -> ReplicatorError | None:
        said: list[ReplicatorError | None] = []
        self.look_back.ask(5, said.append)
        return said[0]


@pytest.fixture
def quiet() -> QuietQueue:
    return QuietQueue()


def test_nothing_is_asked_while_answers_come(quiet: QuietQueue) -> None:
    for _ in range(10):
        quiet.now += UNWATCHED / 2
        assert not quiet.look_back.is_needed(5, ONE)


def test_what_says_that_there_is_nothing_proves_nothing(quiet: QuietQueue) -> None:
    nothing = ONE._replace(code=Response.PULL_NOT_FOUND, next_offset=5, max_offset=5)
    for _ in range(10):
        quiet.now += UNWATCHED / 2
        assert not quiet.look_back.is_needed(5, nothing)
    assert quiet.look_back.is_needed(5, ONE)


def test_nothing_is_asked_where_nobody_could_have_written_as_much(quiet: QuietQueue) -> None:
    quiet.now += UNWATCHED
    assert quiet.look_back.is_needed(1_000_000, ONE._replace(next_offset=1_000_001))
    assert not quiet.look_back.is_needed(10_000_000, ONE._replace(next_offset=10_000_001))


def test_nothing_is_asked_where_nothing_was_read(quiet: QuietQueue) -> None:
    quiet.state.progress.offsets.clear()
    quiet.now += UNWATCHED
    assert not quiet.look_back.is_needed(5, ONE)
    quiet.state.progress.seen = Seen(5, 1)  # the position went back
    assert not quiet.look_back.is_needed(5, ONE)


def test_the_same_queue_is_sure_again(quiet: QuietQueue) -> None:
    quiet.now += UNWATCHED
    assert quiet.look_back.is_needed(5, ONE)
    assert quiet.ask() is None
    assert not quiet.look_back.is_needed(5, ONE)
    assert quiet.broker.asked == [3]


def test_another_queue_is_a_reset(quiet: QuietQueue) -> None:
    quiet.broker.later = 9
    error = quiet.ask()
    assert isinstance(error, SourceReset)
    assert (error.position, error.min_offset, error.max_offset) == (5, 0, 6)


def test_what_was_left_out_tells_as_well(quiet: QuietQueue) -> None:
    """The last message that was read is the one to look at, copied or not."""
    quiet.state.progress.seen = Seen(4, 999)
    assert isinstance(quiet.ask(), SourceReset)
    assert quiet.broker.asked == [4]


def test_what_retention_deleted_tells_nothing(quiet: QuietQueue) -> None:
    quiet.broker.later, quiet.broker.low = 9, 4
    assert quiet.ask() is None


def test_no_answer_is_none(quiet: QuietQueue) -> None:
    quiet.broker.failure = Unreachable("source:10911", "gone")
    assert isinstance(quiet.ask(), SourceLost)
    quiet.broker.failure = Frame(Response.SYSTEM_ERROR, 1, 1, "busy", {}, b"")
    assert isinstance(quiet.ask(), SourceLost)
