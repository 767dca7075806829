"""Connectors of other kinds than routing, and transforms: what third parties write, and how it is found.

A package brings one by an entry point of the group `rocketmq_replicator.connectors` or `….transforms`.
"""

from replicator.plugins.interface import (
    Message,
    NoConfig,
    Polled,
    Position,
    Record,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceTask,
    TaskFailed,
    Transform,
)

__all__ = [
    "Message",
    "NoConfig",
    "Polled",
    "Position",
    "Record",
    "SinkConnector",
    "SinkTask",
    "SourceConnector",
    "SourceTask",
    "TaskFailed",
    "Transform",
]
