"""What is needed of Spark to have queues live in its tasks."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from replicator.errors import ReplicatorError
from replicator.spark.resident.job import ResidentJob

__all__ = ["Room", "SparkGone", "SparkJobs"]


class SparkGone(ReplicatorError):
    """Spark's session has ended; another one can be had."""


class Room(NamedTuple):
    """Where the worker listens (`bind`), and where executors find it (`host`)."""

    bind: str
    host: str


class SparkJobs(Protocol):
    """Spark, as far as it is needed; each call blocks its thread."""

    def open(self) -> Room:
        """Starts the session."""
        ...

    def slots(self) -> int:
        """How many tasks run at a time."""
        ...

    def run(self, job: ResidentJob) -> None:
        """Runs one job to its end; raises `SparkGone` if the session has ended."""
        ...

    def cancel(self, number: int) -> None:
        """Ends the job of that number, which may not have begun."""
        ...

    def close(self) -> None:
        """Cancels what runs, and ends the session."""
        ...
