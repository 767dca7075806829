"""Keeps a worker's history of topics, whether somebody looks at it or not."""

from __future__ import annotations

import time

from replicator.admin.group_view import GroupView
from replicator.observe.topic_history import TopicHistory
from replicator.state.connector_configs import State
from replicator.worker.worker import Worker

__all__ = ["TopicRecorder"]


class TopicRecorder:
    """Adds what the group has published last to `history`."""

    def __init__(self, worker: Worker, history: TopicHistory) -> None:
        self._worker = worker
        self._view = GroupView(worker)
        self._history = history

    def record(self) -> None:
        """Adds a point and a sample where it is time for one; to be called each second or so."""
        at, history = time.time(), self._history
        is_point, is_sample = history.due(at), history.latest.due(at)
        if not (is_point or is_sample):
            return
        progress = self._view.progress()
        if is_point:
            history.add(at, progress)
        if is_sample:
            connectors = self._worker.connectors.all()
            running = {name for name, connector in connectors.items() if connector.state is State.RUNNING}
            history.latest.add(at, progress, running)
