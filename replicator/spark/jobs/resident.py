"""Jobs of resident queues: one Spark task each, which runs until its owner ends it. Bodies never meet the JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

from replicator.errors import ReplicatorError
from replicator.observe.logging import configure
from replicator.ranges.access import run
from replicator.spark.engine.session import session
from replicator.spark.resident.job import ResidentJob
from replicator.spark.resident.owner import Room
from replicator.spark.resident.task import reside

__all__ = ["ResidentJobs"]


class ResidentJobs:
    """Runs jobs in a session at `master`."""

    def __init__(self, master: str | None) -> None:
        self._master = master
        self._stack = ExitStack()
        self._spark: Any = None

    def open(self) -> Room:
        """Starts the session.

        Raises:
            StartupError: there is no PySpark, no Java, or no session.
            ConfigError: speculation is switched on.
        """
        self._spark = self._stack.enter_context(session(master=self._master))
        context = self._spark.sparkContext
        host = str(context.getConf().get("spark.driver.host"))
        bind = str(context.getConf().get("spark.driver.bindAddress") or host)
        return Room(bind, host, max(1, int(context.defaultParallelism)))

    def run(self, job: ResidentJob) -> None:
        """Runs `job` to its end.

        Raises:
            ReplicatorError: Spark gave it up.
        """
        context = self._spark.sparkContext
        context.setJobGroup(_group(job.number), "copies queues until its worker ends it", True)
        try:
            context.parallelize([job], 1).mapPartitions(_reside).count()
        except Exception as error:  # noqa: BLE001 - errors of the JVM have many types
            lines = [line.strip() for line in str(error).splitlines()]
            reason = next((line for line in reversed(lines) if "Lost" in line or "Error" in line), lines[0])
            raise ReplicatorError(reason) from None

    def cancel(self, number: int) -> None:
        """Ends the job of that number, which may not have begun."""
        self._spark.sparkContext.cancelJobGroup(_group(number))

    def close(self) -> None:
        """Cancels the jobs that run, and ends the session."""
        if self._spark is not None:
            self._spark.sparkContext.cancelAllJobs()
            self._spark = None
        self._stack.close()


def _group(number: int) -> str:
    return f"rocketmq-replicator resident {number}"


def _reside(jobs: Iterable[ResidentJob]) -> Iterator[None]:
    for job in jobs:
        configure(level=job.log_level)
        run(reside(job))
    return iter(())
