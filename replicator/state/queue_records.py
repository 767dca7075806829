"""What is kept of the copy of one queue, as records: its position, and what the target has acknowledged. Pure.

An offset map is about one target queue. Where the queue map names another one by now, since the target broker was
given up, it says nothing any more; `moved` in the topic's record says what becomes of the copies that were there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from replicator.routing.offset_map import Interval, OffsetMap
from replicator.routing.queue_map import Queue
from replicator.routing.queue_progress import Seen
from replicator.routing.state import QueueState
from replicator.state.topic_record import TopicRecord

__all__ = ["is_about", "offset_of", "offset_record", "position_record", "restore"]

#: Numbers that are read from a record: half of what fits into one.
_MOST: Final = 2**62


def is_about(offset: Mapping[str, Any], target: Queue) -> bool:
    """Whether an offset record is about this target queue; one of a version that did not say so is."""
    there = offset.get("target")
    return there is None or Queue(*there) == target


def offset_of(position: Mapping[str, Any] | None) -> int | None:
    """The source offset that a queue is at, by its record; None where there is none, or that of a plugin's task."""
    found = None if position is None else position["position"]
    return found if isinstance(found, int) else None


def position_record(state: QueueState) -> dict[str, Any]:
    """What is known of a queue that has a position."""
    progress, anomalies, audit = state.progress, state.counters.anomalies(), state.audit.record()
    return {
        "position": progress.position,
        "start": progress.start,
        "copied": state.counters.copied_in_all,
        "known_end": progress.known_end,
        **({"seen": list(progress.seen)} if progress.seen else {}),
        **({"resumed": progress.resumed} if progress.resumed is not None else {}),
        **({"anomalies": anomalies} if anomalies else {}),
        **({"audit": audit} if audit else {}),
        **({"made": state.made} if state.made else {}),
    }


def offset_record(state: QueueState) -> dict[str, Any]:
    """What the target has of a queue."""
    return {
        "target": [state.target.broker, state.target.queue_id],
        "clean": state.progress.clean,
        "target_floor": state.progress.target_floor,
        "store_timestamp": state.progress.store_timestamp,
        "intervals": [list(interval) for interval in state.progress.offsets],
        **({"made": state.made} if state.made else {}),
    }


def restore(
    state: QueueState,
    position: Mapping[str, Any] | None,
    offset: Mapping[str, Any] | None,
    topic: TopicRecord | None,
) -> None:
    """Puts what is kept of a queue into `state`.

    Args:
        topic: the record of its topic.
    """
    progress, counters = state.progress, state.counters
    if position is not None:
        position = _countable(position)
        progress.position = position["position"]
        progress.start = position["start"]
        progress.resumed = position.get("resumed")
        progress.known_end = position.get("known_end", 0)
        progress.seen = Seen(*position["seen"]) if position.get("seen") else None
        counters.copied_before = position.get("copied", 0)
        counters.restore(position.get("anomalies", {}))
        if (audit := position.get("audit")) is not None:
            state.audit.restore(audit)
    if offset is not None and not is_about(offset, state.target):
        _move(state, offset, topic)
    elif offset is not None:
        progress.offsets = OffsetMap(Interval(*interval) for interval in offset["intervals"])
        progress.target_floor = offset["target_floor"]
        progress.store_timestamp = offset["store_timestamp"]
        progress.clean = offset["clean"]
    elif position is None:
        progress.clean = topic is not None and state.source in topic.fresh


def _countable(value: Any) -> Any:
    """`value` with no number so great that it does not fit into a record any more once it was counted on."""
    if isinstance(value, dict):
        return {name: _countable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_countable(each) for each in value]
    return min(value, _MOST) if isinstance(value, int) else value


def _move(state: QueueState, offset: Mapping[str, Any], topic: TopicRecord | None) -> None:
    """Begins at the new target; what was at the old one is lost there, and is copied again or not."""
    progress = state.progress
    if topic is not None and topic.moved.get(state.source) == "skip":
        progress.start, progress.resumed = progress.position, None
    else:
        progress.position = None  # from `start` on, or the oldest message that the source has
        state.audit.restart()
    progress.seen, progress.clean = None, False
    progress.abandoned = sum(length for _, _, length in offset["intervals"])
