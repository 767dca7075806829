"""The Spark session of the commands; PySpark is not imported before it is needed here."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from replicator.errors import ConfigError, StartupError
from replicator.spark.engine.java import java_home

__all__ = ["MASTER", "SPECULATION", "refuse_no_spark", "refuse_speculating", "refuse_speculation", "session"]

#: All cores of this machine; a task is tried four times in all, as on a cluster.
MASTER: Final = "local[*,4]"

SPECULATION: Final = "spark.speculation"

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # The driver's JVM only schedules tasks; no message passes through it. The second compiler would cost half of
    # the start's CPU for nothing. These precede `spark.driver.extraJavaOptions`, which are the user's.
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
}


@contextmanager
def session(*, master: str | None = None, conf: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A SparkSession, of which a process has one: stopped with the last context that it is used in.

    Args:
        master: `local[*,4]` by default.
        conf: Spark's own settings.

    Raises:
        StartupError: there is no PySpark, no Java, or the session does not start.
        ConfigError: speculation is switched on, or the master is a server of Spark Connect.
    """
    _refuse_connect(master)
    try:
        sql = importlib.import_module("pyspark.sql")
    except ImportError:
        raise _no_pyspark() from None
    # Otherwise workers would run the `python3` on PATH, which does not have our packages.
    if os.environ.setdefault("PYSPARK_PYTHON", sys.executable) != sys.executable:
        # That Python also plans data sources on this machine, so it must find the packages installed here.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    if (home := java_home()) is not None:
        os.environ["JAVA_HOME"] = str(home)
    builder = sql.SparkSession.builder.appName("rocketmq-replicator").master(master or MASTER)
    settings = _SETTINGS | dict(conf or {})
    if master is None or master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} | settings
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = _users.enter(builder, master or MASTER)
    try:
        refuse_speculation(spark)
        yield spark
    finally:
        _users.leave(spark)


def _stop(spark: Any) -> None:
    """Ends the session; where its JVM is gone, PySpark is made to forget it, or it would be given out again."""
    try:
        spark.stop()
    except Exception:  # noqa: BLE001 - errors of the JVM have many types
        core, sql = importlib.import_module("pyspark"), importlib.import_module("pyspark.sql")
        core.SparkContext._active_spark_context = None  # noqa: SLF001 - it has no public way
        core.SparkContext._gateway = core.SparkContext._jvm = None  # noqa: SLF001
        sql.SparkSession._instantiatedSession = None  # noqa: SLF001


class _Users:
    """Counts the contexts that use the process's session; they are of several threads."""

    def __init__(self) -> None:
        self._count = 0
        self._lock = threading.Lock()

    def enter(self, builder: Any, master: str) -> Any:
        """The session, for one context more."""
        with self._lock:
            try:
                spark = builder.getOrCreate()
            except Exception as error:  # noqa: BLE001 - errors of the JVM have many types
                reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
                raise StartupError(
                    f"no Spark session at {master}: {reason}", hint="see Spark's output above"
                ) from None
            self._count += 1
            return spark

    def leave(self, spark: Any) -> None:
        """One context is over; with the last one the session ends."""
        with self._lock:
            self._count -= 1
            if not self._count:
                _stop(spark)


_users: Final = _Users()


def refuse_no_spark() -> None:
    """Checks that a session could start, without starting one.

    Raises:
        StartupError: there is no PySpark, or no Java.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise _no_pyspark()
    java_home()


def _refuse_connect(master: str | None) -> None:
    name, given = "spark_master", master or MASTER
    if not given.startswith("sc:") and "SPARK_REMOTE" in os.environ:
        name, given = "SPARK_REMOTE", os.environ["SPARK_REMOTE"]
    if given.startswith("sc:") or name == "SPARK_REMOTE":
        raise ConfigError(
            f"{name} = {given}: Spark Connect does not run tasks that copy or compare queues",
            hint="give Spark's own master, like spark://host:7077; over Connect there is the data source rocketmq",
        )


def _no_pyspark() -> StartupError:
    return StartupError("PySpark is not installed", hint="pip install 'rocketmq-replicator[spark]'")


def refuse_speculation(spark: Any) -> None:
    """Refuses speculation: two concurrent attempts of one task would write each message twice.

    Raises:
        ConfigError: it is switched on.
    """
    refuse_speculating(spark.conf.get(SPECULATION, "false"))


def refuse_speculating(given: str | None) -> None:
    """As `refuse_speculation`, for what is given of the setting."""
    if str(given).lower() == "true":
        raise ConfigError(
            f"{SPECULATION} = true: two attempts of one task would write to one queue", hint="set it to false"
        )
