"""Keeps a worker's history of topics, whether somebody looks at it or not."""

from __future__ import annotations

import time

from replicator.admin.group_view import GroupView
from replicator.observe.topic_history import TopicHistory
from replicator.worker.worker import Worker

__all__ = ["TopicRecorder"]


class TopicRecorder:
    """Adds what the group has published last to `history`."""

    def __init__(self, worker: Worker, history: TopicHistory) -> None:
        self._view = GroupView(worker)
        self._history = history

    def record(self) -> None:
        """Adds a point if it is time for one; to be called each second or so."""
        at = time.time()
        if self._history.due(at):
            self._history.add(at, self._view.progress())
