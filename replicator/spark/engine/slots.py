"""How many tasks Spark runs at a time; `defaultParallelism` is a setting, which users give other values."""

from __future__ import annotations

import time
from typing import Any, Final

from replicator.errors import ConfigError

__all__ = ["refuse_no_executors", "slots", "wait_for_slots"]

#: Seconds that a cluster has for its first executors, and in which no more of them have come.
_PATIENCE: Final = 15.0
_QUIET: Final = 1.0
_POLL_INTERVAL: Final = 0.2
_DYNAMIC: Final = "spark.dynamicAllocation"


def slots(spark: Any) -> int:
    """Those of the executors that have registered so far; one at least."""
    return max(1, _registered(spark))


def wait_for_slots(spark: Any) -> None:
    """Waits a little until executors have registered: those of a cluster come later than its session."""
    if spark.sparkContext.master.partition("[")[0] == "local":
        return
    until = time.monotonic() + _PATIENCE
    before, since = _registered(spark), time.monotonic()
    while time.monotonic() < until and not (before and time.monotonic() - since >= _QUIET):
        time.sleep(_POLL_INTERVAL)
        if (now := _registered(spark)) != before:
            before, since = now, time.monotonic()


def refuse_no_executors(spark: Any) -> None:
    """Refuses dynamic allocation that begins without executors: it adds them while tasks of a job wait.

    Jobs that never end are made for the executors that there are, so that none would ever be added.

    Raises:
        ConfigError: it is switched on, and gives none to begin with.
    """
    conf = spark.sparkContext.getConf()
    if conf.get(f"{_DYNAMIC}.enabled", "false").lower() != "true":
        return
    begins_with = [f"{_DYNAMIC}.minExecutors", f"{_DYNAMIC}.initialExecutors", "spark.executor.instances"]
    if not any(int(conf.get(name, "0")) for name in begins_with):
        raise ConfigError(
            f"{_DYNAMIC}.enabled = true, and {_DYNAMIC}.minExecutors = 0: queues are divided among the executors"
            " that there are at the start",
            hint=f"set {_DYNAMIC}.minExecutors to the executors that the worker's queues are to have",
        )


def _registered(spark: Any) -> int:
    context = spark.sparkContext._jsc.sc()  # noqa: SLF001 - PySpark has no public way
    return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))
