"""Connectors of other kinds than routing: what third parties write, and how it is found.

A package brings one by an entry point of the group `rocketmq_replicator.connectors`.
"""

from replicator.plugins.interface import (
    Polled,
    Position,
    Record,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceTask,
    TaskFailed,
)

__all__ = [
    "Polled",
    "Position",
    "Record",
    "SinkConnector",
    "SinkTask",
    "SourceConnector",
    "SourceTask",
    "TaskFailed",
]
