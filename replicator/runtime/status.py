"""How a worker is doing, for people and scripts: per topic and per queue, from the queues' own state.

`copied` counts since the process began, `copied_in_all` since the route began, whoever ran its tasks; what a worker
copied that died before it first told of a queue is not in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from replicator.routing.state import Phase, QueueState
from replicator.runtime.worker_connector import WorkerConnector

__all__ = ["queue_status", "task_states", "topic_status"]

#: Worst first: what a topic's state is, given those of its queues.
_WORST = (Phase.FAILED, Phase.WAITING, Phase.RECOVERING, Phase.STARTING, Phase.RUNNING, Phase.STOPPED)


def queue_status(state: QueueState) -> dict[str, Any]:
    """One queue."""
    return {
        "topic": state.topic,
        "connector": state.route,
        "stalled": state.stalled,
        "source": {"broker": state.source.broker, "queue": state.source.queue_id},
        "target": {"broker": state.target.broker, "queue": state.target.queue_id},
        "state": state.phase.value,
        "reason": state.reason,
        "position": state.position,
        "max_offset": state.max_offset,
        "lag_messages": state.lag,
        "copied": state.copied,
        "copied_in_all": state.copied_in_all,
        "skipped": dict(state.skipped),
        "gap_messages": state.gaps,
        "resets": state.resets,
        "repeated": state.repeated,
        "foreign": state.foreign,
        "retries": state.retries,
    }


def task_states(connectors: Iterable[WorkerConnector]) -> dict[str, str]:
    """The tasks that run here, by name, each with its worst state."""
    return {
        task: next(phase for phase in _WORST if phase in phases).value
        for connector in connectors
        for task, phases in connector.phases().items()
    }


def topic_status(states: Iterable[QueueState]) -> list[dict[str, Any]]:
    """All topics, sorted by name, each its queues added up."""
    topics: dict[tuple[str, str], list[QueueState]] = {}
    for state in states:
        topics.setdefault((state.topic, state.route), []).append(state)
    return [_topic(*name, queues) for name, queues in sorted(topics.items())]


def _topic(name: str, route: str, queues: list[QueueState]) -> dict[str, Any]:
    phases = {queue.phase for queue in queues}
    worst = next(phase for phase in _WORST if phase in phases)
    now = time.time()
    behind = [now - queue.store_timestamp / 1000 for queue in queues if queue.lag and queue.store_timestamp]
    return {
        "topic": name,
        "connector": route,
        "queues": len(queues),
        "severity": len(_WORST) - _WORST.index(worst),
        "stalled": sum(queue.stalled for queue in queues),
        "state": worst.value,
        "reason": next((queue.reason for queue in queues if queue.phase is worst and queue.reason), ""),
        "copied": sum(queue.copied for queue in queues),
        "copied_in_all": sum(queue.copied_in_all for queue in queues),
        "lag_messages": sum(queue.lag for queue in queues),
        "lag_seconds": max(behind, default=0.0),
        "skipped": sum(sum(queue.skipped.values()) for queue in queues),
        "gap_messages": sum(queue.gaps for queue in queues),
        "repeated": sum(queue.repeated for queue in queues),
        "foreign": sum(queue.foreign for queue in queues),
    }
