"""What is kept of a queue comes back as it was; at a new target it begins again, by what was decided."""

from __future__ import annotations

from typing import Any

import pytest

from replicator.routing.queue_map import Queue
from replicator.routing.queue_progress import Seen
from replicator.routing.state import QueueState
from replicator.state.queue_records import is_about, offset_record, position_record, restore
from replicator.state.topic_record import TopicRecord

SOURCE, TARGET, OTHER = Queue("a/x", 1), Queue("b", 1), Queue("c", 7)


def kept() -> tuple[dict[str, Any], dict[str, Any]]:
    """The records of a queue that was copied from offset 5 to 40, 30 messages of it."""
    state = QueueState("T", SOURCE, TARGET)
    state.progress.position, state.progress.start, state.progress.clean = 40, 5, True
    state.progress.seen = Seen(39, 1700)
    state.progress.offsets.add(5, 100, 20)
    state.progress.offsets.add(30, 120, 10)
    state.counters.target_lost = 3
    state.audit.verified_to = 38
    return position_record(state), offset_record(state)


def restored(target: Queue, moved: dict[str, str], *, times: int = 1) -> QueueState:
    state = QueueState("T", SOURCE, target)
    topic = TopicRecord.of({"queues": {"a/x/1": "b/1"}, "late": [], "fresh": [], "moved": moved})
    for _ in range(times):
        restore(state, *kept(), topic)
    return state


def test_at_the_same_target_all_is_as_it_was() -> None:
    """Also after the queue has moved, once the new target has something."""
    state = restored(TARGET, {"a/x/1": "resend"})
    assert (position_record(state), offset_record(state)) == kept()


@pytest.mark.parametrize(("policy", "position", "start"), [("resend", None, 5), ("skip", 40, 40)])
def test_at_a_new_target_it_begins_as_was_decided(policy: str, position: int | None, start: int) -> None:
    """What was at the old one counts as lost there, once, however often it is looked at."""
    for times in (1, 3):
        state = restored(OTHER, {"a/x/1": policy}, times=times)
        assert (state.progress.position, state.progress.start) == (position, start)
        assert (list(state.progress.offsets), state.progress.seen, state.progress.clean) == ([], None, False)
        assert [state.lose_abandoned() for _ in range(2)] == [30, 0]
        assert state.counters.target_lost == 33
        assert state.audit.verified_to == (None if policy == "resend" else 38)  # copied again, and audited again


def test_a_record_of_before_is_about_any_target() -> None:
    """It did not say which."""
    _, offset = kept()
    assert is_about(offset, TARGET)
    assert not is_about(offset, OTHER)
    del offset["target"]
    assert is_about(offset, OTHER)


def test_where_it_goes_on_after_a_reset_is_kept() -> None:
    """What the target loses of it is copied again from there: what came before is no longer part of the queue."""
    state = restored(TARGET, {})
    state.progress.resumed = state.progress.position = 38
    state.progress.offsets.clear()
    again = QueueState("T", SOURCE, TARGET)
    restore(again, position_record(state), offset_record(state), None)
    again.progress.offsets.add(38, 500, 2)
    assert again.lose_at_target(None) == (38, 2)
