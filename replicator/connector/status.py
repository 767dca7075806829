"""How a worker is doing, for people and scripts: per topic and per queue, from the queues' own state.

`copied` counts since the process began, `copied_in_all` since the route began, over all owners; what a worker
copied that died before it first published a queue's progress is not in it. Gaps, resets, losses, duplicates,
messages of others and skipped messages count since the route began.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from heapq import nlargest
from typing import Any

from replicator.aio.clock import now
from replicator.connector.interface import ConnectorReporting
from replicator.observe.numbers import TopicNumbers
from replicator.observe.printable import printable
from replicator.routing.state import Phase, QueueState

__all__ = ["QueueSums", "queue_status", "task_states", "topic_status"]

#: Worst first: what a topic's state is, given those of its queues.
_WORST = (
    *(Phase.FAILED, Phase.WAITING, Phase.UNASSIGNED, Phase.BACKFILLING, Phase.RECOVERING),
    *(Phase.STARTING, Phase.RUNNING, Phase.PAUSED, Phase.STOPPED),
)

#: Queues of a worker that others are told of, at most.
_TOLD = 50

#: Fields of a topic's status, by the counter that is summed.
_SUMS = {
    "stalled": "stalled",
    "copied": "copied",
    "copied_in_all": "copied_in_all",
    "lag_messages": "lag",
    "gap_messages": "gaps",
    "target_lost": "target_lost",
    "late": "late",
    "duplicates": "duplicates",
    "foreign": "foreign",
}


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
        "position": state.progress.position,
        "max_offset": state.progress.max_offset,
        "lag_messages": state.progress.lag,
        "copied": state.counters.copied,
        "copied_in_all": state.counters.copied_in_all,
        "skipped": dict(state.counters.skipped),
        "gap_messages": state.counters.gaps,
        "resets": state.counters.resets,
        "target_lost": state.counters.target_lost,
        "late": state.counters.late,
        "duplicates": state.counters.duplicates,
        "foreign": state.counters.foreign,
        "foreign_offsets": _range(state.counters.foreign_offsets),
        "retries": state.counters.retries,
        "verified_to": state.audit.verified_to,
        "verified_age_seconds": round(state.audit.age(now()), 3),
        "verified": state.audit.verified,
        "unverified": dict(state.audit.unverified),
        "differences": dict(state.audit.differences),
        "latest_differences": [each._asdict() for each in state.audit.latest],
    }


def _range(offsets: tuple[int, int] | None) -> dict[str, int] | None:
    return None if offsets is None else {"first": offsets[0], "last": offsets[1]}


class QueueSums:
    """Queues added up, maybe some at a time: all of a worker take as long as messages should not wait."""

    def __init__(self) -> None:
        self._topics: dict[tuple[str, str], TopicNumbers] = {}
        self._wrong: list[QueueState] = []

    @classmethod
    def of(cls, states: Iterable[QueueState]) -> QueueSums:
        """Those of `states` as they are now."""
        sums = cls()
        sums.add(states)
        return sums

    def add(self, states: Iterable[QueueState]) -> None:
        """Adds `states` as they are now."""
        at = time.time()
        for state in states:
            self._topics.setdefault((state.topic, state.route), TopicNumbers()).add(state, at)
            if state.reason or state.stalled or state.progress.lag:
                self._wrong.append(state)

    def topics(self) -> list[dict[str, Any]]:
        """All topics, sorted by name, each its queues added up as /metrics adds them."""
        return [_topic(*name, numbers) for name, numbers in sorted(self._topics.items(), key=lambda item: item[0])]

    def worst(self) -> list[dict[str, Any]]:
        """The queues that do not run or lag, the worst first, as many as others are told of."""
        return [_wrong(state) for state in nlargest(_TOLD, self._wrong, key=_how_wrong)]


def _how_wrong(state: QueueState) -> tuple[bool, bool, int]:
    return bool(state.reason), state.stalled, state.progress.lag


def _wrong(state: QueueState) -> dict[str, Any]:
    return {
        "connector": state.route,
        "topic": state.topic,
        "broker": state.source.broker,
        "queue": state.source.queue_id,
        "state": state.phase.value,
        "reason": printable(state.reason),
        "stalled": state.stalled,
        "max_offset": state.progress.max_offset,
        "lag_messages": state.progress.lag,
    }


def task_states(connectors: Iterable[ConnectorReporting]) -> dict[str, str]:
    """The tasks that run here, by name, each with its worst state."""
    return {
        task: next(phase for phase in _WORST if phase in phases).value
        for connector in connectors
        for task, phases in connector.phases().items()
    }


def topic_status(states: Iterable[QueueState]) -> list[dict[str, Any]]:
    """As `QueueSums.topics`."""
    return QueueSums.of(states).topics()


def _topic(name: str, route: str, numbers: TopicNumbers) -> dict[str, Any]:
    worst = next(phase for phase in _WORST if phase in numbers.phases)
    sums = numbers.sums
    return {
        "topic": name,
        "connector": route,
        "queues": numbers.queues,
        "failed": numbers.phases.get(Phase.FAILED, 0),
        "waiting": numbers.phases.get(Phase.WAITING, 0),
        "severity": len(_WORST) - _WORST.index(worst),
        "state": worst.value,
        "reason": printable(numbers.reasons.get(worst, "")),
        **{field: sums[added] for field, added in _SUMS.items()},
        "lag_seconds": numbers.lag_seconds,
        "skipped": sum(numbers.skipped.values()),
        "verified": numbers.verified,
        "unverified": sum(numbers.unverified.values()),
        "audit_differences": sum(numbers.differences.values()),
        "verified_age_seconds": numbers.verified_age,
    }
