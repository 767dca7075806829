"""Jobs of resident queues: one Spark task each, which runs until its owner ends it. Bodies never meet the JVM."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

from replicator.errors import ReplicatorError
from replicator.observe.logging import configure
from replicator.ranges.access import run
from replicator.spark.engine.session import session
from replicator.spark.engine.slots import refuse_no_executors, slots, wait_for_slots
from replicator.spark.resident.job import ResidentJob
from replicator.spark.resident.jobs import Room, SparkGone
from replicator.spark.resident.task import reside

__all__ = ["ResidentJobs"]


class ResidentJobs:
    """Runs jobs in a session at `master`."""

    def __init__(self, master: str | None) -> None:
        self._master = master
        self._stack = ExitStack()
        self._spark: Any = None
        #: The process's session may have jobs of others, and those of a worker that was rebuilt.
        self._name = f"rocketmq-replicator resident {uuid.uuid4().hex}"
        self._numbers: set[int] = set()
        self._lock = threading.Lock()

    def open(self) -> Room:
        """Starts the session.

        Raises:
            StartupError: there is no PySpark, no Java, or no session.
            ConfigError: speculation is switched on, or dynamic allocation without executors to begin with.
        """
        with self._lock:
            self._spark = self._stack.enter_context(session(master=self._master))
            refuse_no_executors(self._spark)
            wait_for_slots(self._spark)
            context = self._spark.sparkContext
            host = str(context.getConf().get("spark.driver.host"))
            return Room(str(context.getConf().get("spark.driver.bindAddress") or host), host)

    def slots(self) -> int:
        """How many tasks run at a time: of a cluster it is what has registered so far."""
        return slots(self._spark)

    def run(self, job: ResidentJob) -> None:
        """Runs `job` to its end.

        Raises:
            SparkGone: the session has ended.
            ReplicatorError: Spark gave it up.
        """
        context = self._spark.sparkContext
        self._numbers.add(job.number)
        try:
            context.setJobGroup(self._group(job.number), "copies queues until its worker ends it", True)
            # Inside the function, since what is parallelized goes through a file, and a job has secrets.
            context.parallelize([None], 1).mapPartitions(partial(_reside, job)).count()
        except Exception as error:  # noqa: BLE001 - errors of the JVM have many types
            lines = [line.strip() for line in str(error).splitlines()] or [type(error).__name__]
            reason = next((line for line in reversed(lines) if "Lost" in line or "Error" in line), lines[0])
            raise (SparkGone if _has_ended(context) else ReplicatorError)(reason) from None
        finally:
            self._numbers.discard(job.number)

    def cancel(self, number: int) -> None:
        """Ends the job of that number, which may not have begun."""
        self._spark.sparkContext.cancelJobGroup(self._group(number))

    def close(self) -> None:
        """Cancels the jobs that run, and ends the session unless others use it."""
        with self._lock:
            try:
                for number in list(self._numbers):
                    self.cancel(number)
            finally:
                self._spark = None
                self._stack.close()

    def _group(self, number: int) -> str:
        return f"{self._name} {number}"


def _has_ended(context: Any) -> bool:
    try:
        return bool(context._jsc.sc().isStopped())  # noqa: SLF001 - PySpark has no public way
    except Exception:  # noqa: BLE001 - the JVM is gone
        return True


def _reside(job: ResidentJob, _rows: Iterable[None]) -> Iterator[None]:
    configure(level=job.log_level)
    run(reside(job))
    return iter(())
