"""The state of a queue arrives at the other side as it was, and of its offset map only what is new is sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replicator.routing.message_queue import MessageQueue
from replicator.routing.queue_map import Queue
from replicator.routing.queue_progress import Seen
from replicator.routing.state import Phase, QueueState
from replicator.spark.resident.messages import Hello, Report, read_task_message, write
from replicator.spark.resident.snapshot import Known, put, snapshot

KEY = MessageQueue("T", "a", 0)


def state() -> QueueState:
    return QueueState("T", Queue("a", 0), Queue("b", 1), route="route")


def over(here: QueueState, there: QueueState, known: Known) -> int:
    """Sends all of `here` to `there`; returns how many runs were sent."""
    report = read_task_message(write(Report(1, [snapshot(here, known)], [])))
    assert not isinstance(report, Hello)
    (found,) = report.states
    put(there, found)
    return len(found.progress.runs)


def test_everything_arrives() -> None:
    """Of all kinds of numbers, and what was restored of them."""
    here, there = state(), state()
    here.set_phase(Phase.WAITING, "the target is busy")
    here.stalled = True
    here.progress.position, here.progress.start, here.progress.target_end = 7, 3, 12
    here.progress.clean, here.progress.known_end, here.progress.store_timestamp = True, 9, 1234
    here.progress.offsets.add(3, 8, 4)
    here.counters.copied, here.counters.skipped, here.counters.lost = 4, {"filter": 2}, (1, 3)
    here.counters.errors, here.counters.lost_at_target = {("blocked", "busy"): 3}, (5, 2)
    here.counters.latency[2] = 4
    here.progress.seen, here.progress.abandoned = Seen(6, 99), 3
    here.counters.restore({"gaps": 2, "skipped": {"loop": 1}})
    over(here, there, Known())
    assert (there.phase, there.reason, there.stalled) == (Phase.WAITING, "the target is busy", True)
    for name in ("position", "start", "target_end", "clean", "known_end", "store_timestamp", "seen", "abandoned"):
        assert getattr(there.progress, name) == getattr(here.progress, name)
    assert list(there.progress.offsets) == list(here.progress.offsets)
    for name in ("copied", "skipped", "lost", "errors", "lost_at_target", "latency", "gaps", "restored"):
        assert getattr(there.counters, name) == getattr(here.counters, name), name
    assert there.counters.anomalies() == here.counters.anomalies()
    assert there.counters.skipped is not here.counters.skipped


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 3), st.integers(0, 3), st.integers(1, 5)),
        st.tuples(st.just("cut"), st.integers(0, 60), st.just(0), st.just(0)),
        st.tuples(st.just("clear"), st.just(0), st.just(0), st.just(0)),
        st.tuples(st.just("send"), st.just(0), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS)
def test_the_offset_map_arrives_whatever_becomes_of_it(steps: list[tuple[str, int, int, int]]) -> None:
    """It grows, is cut where the target lost copies, and starts over with the source."""
    here, there, known = state(), state(), Known()
    offsets = here.progress.offsets
    for what, first, second, third in steps:
        if what == "add":
            source, target = offsets.last or (-1, -1)
            offsets.add(source + 1 + first, target + 1 + second, third)
        elif what == "cut":
            offsets.cut(first)
        elif what == "clear":
            offsets.clear()
        else:
            over(here, there, known)
    over(here, there, known)
    assert list(there.progress.offsets) == list(offsets)


def test_only_what_is_new_is_sent() -> None:
    """A queue with foreign messages in between has thousands of runs."""
    here, there, known = state(), state(), Known()
    for i in range(1000):
        here.progress.offsets.add(2 * i, 3 * i, 1)
    assert over(here, there, known) == 1000
    here.progress.offsets.add(2000, 3000, 5)
    assert over(here, there, known) == 2
    assert over(here, there, known) == 1
    assert list(there.progress.offsets) == list(here.progress.offsets)
