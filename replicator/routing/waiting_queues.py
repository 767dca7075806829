"""Queues that wait, and which of them are worth a line of the log."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from replicator.client.system_topics import SCHEDULE_TOPIC, TIMER_TOPIC
from replicator.routing.state import QueueState

__all__ = ["WaitingQueues"]

#: Topics whose queues nobody knows one by one: brokers have one for each delay level.
_TOGETHER: Final = (SCHEDULE_TOPIC, TIMER_TOPIC)


class WaitingQueues:
    """Why the queues of a route wait; of a topic of waiting messages those of a broker are told of together."""

    def __init__(self) -> None:
        self._why: defaultdict[str, dict[int, tuple[str, str]]] = defaultdict(dict)

    def name(self, state: QueueState) -> dict[str, str]:
        """What is logged in place of the queue, if anything."""
        return {"queue": _place(state)} if state.topic in _TOGETHER else {}

    def begin(self, state: QueueState, why: tuple[str, str]) -> bool:
        """A queue waits from now on, in a phase and for a reason. Whether that is to be logged."""
        if state.topic not in _TOGETHER:
            return True
        others = self._why[_place(state)]
        news = why not in others.values()
        others[state.source.queue_id] = why
        return news

    def end(self, state: QueueState) -> bool:
        """A queue does not wait. Whether that is to be logged, if it did before: no other does any more."""
        if state.topic not in _TOGETHER:
            return True
        others = self._why[_place(state)]
        others.pop(state.source.queue_id, None)
        return not others


def _place(state: QueueState) -> str:
    return f"{state.topic}/{state.source.broker}"
