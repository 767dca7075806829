"""Keyed records: what shared state is made of.

A record carries its own version (counter, worker); of two records with one key the one with the greater
version holds, in whatever order they are read.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

__all__ = ["Kind", "Record", "Version"]


class Kind(StrEnum):
    """What a record is about. Keys: a connector's name, `connector/topic`, `connector/topic/broker/queue`,
    a worker's id, `connector/kind/broker/name`, `side/broker`; the assignment and the clusters have one record each
    whose key is empty.
    """

    CONNECTOR = "connector"
    TASK = "task"
    ASSIGNMENT = "assignment"
    POSITION = "position"
    OFFSET = "offset"
    STATUS = "status"
    SYNC = "sync"
    CLUSTERS = "clusters"
    BROKER = "broker"


class Version(NamedTuple):
    """Greater is later; of equal counters the worker's id decides."""

    counter: int
    worker: str


class Record(NamedTuple):
    """`value` None says that there is none any more."""

    kind: Kind
    key: str
    version: Version
    value: Any
