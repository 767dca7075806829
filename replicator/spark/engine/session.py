"""The Spark session of the commands; PySpark is not imported before it is needed here."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from replicator.errors import ConfigError, StartupError
from replicator.extras import install_command
from replicator.spark.engine.java import java_home
from replicator.spark.engine.user_conf import configures_logging, user_conf

__all__ = ["MASTER", "SPECULATION", "refuse_no_spark", "refuse_speculating", "refuse_speculation", "session"]

#: All cores of this machine; a task is tried four times in all, as on a cluster.
MASTER: Final = "local[*,4]"

SPECULATION: Final = "spark.speculation"

_JAVA_OPTIONS: Final = "spark.driver.defaultJavaOptions"
#: Defaults: the user's settings win over all of them.
_SETTINGS: Final = {
    "spark.app.name": "rocketmq-replicator",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # The driver's JVM only schedules tasks; no message passes through it. The second compiler would cost half of
    # the start's CPU for nothing.
    _JAVA_OPTIONS: "-XX:TieredStopAtLevel=1",
}
#: With which Spark says nothing but errors, from its start on.
_LOGGING: Final = Path(__file__).with_name("log4j2.properties").absolute()


@contextmanager
def session(*, master: str | None = None, conf: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A SparkSession, of which a process has one: stopped with the last context that it is used in.

    Args:
        master: by default the user's `spark.master`, else `local[*,4]`.
        conf: Spark settings that win over the user's.

    Raises:
        StartupError: there is no PySpark, no Java, or the session does not start.
        ConfigError: speculation is switched on, or Spark Connect is to be used.
    """
    try:
        sql = importlib.import_module("pyspark.sql")
    except ImportError:
        raise _no_pyspark() from None
    given = user_conf()
    master = master or given.get("spark.master") or MASTER
    _refuse_connect(master)
    # Otherwise workers would run the `python3` on PATH, which does not have our packages.
    python = given.get("spark.pyspark.python", sys.executable)
    if os.environ.setdefault("PYSPARK_PYTHON", python) != sys.executable:
        # That Python also plans data sources on this machine, so it must find the packages installed here.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    has_jvm = "PYSPARK_GATEWAY_PORT" in os.environ  # started by spark-submit
    if not has_jvm and (home := java_home()) is not None:
        os.environ["JAVA_HOME"] = str(home)
    defaults = dict(_SETTINGS)
    if not (has_jvm or _JAVA_OPTIONS in given or configures_logging()):
        defaults[_JAVA_OPTIONS] += f" -Dlog4j2.configurationFile={_LOGGING.as_uri()}"
        if master.partition("[")[0] == "local":  # no other JVM has to be told, and Spark says so in a line
            del defaults["spark.log.level"]
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        defaults |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    builder = sql.SparkSession.builder.master(master)
    for name, value in {**{n: v for n, v in defaults.items() if n not in given}, **(conf or {})}.items():
        builder = builder.config(name, value)
    spark = _users.enter(builder, master)
    try:
        refuse_speculation(spark)
        yield spark
    finally:
        _users.leave(spark)


def _reason(error: Exception) -> str:
    """In a line; the first one of an error of the JVM says only what was called, its last cause says why."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    cause = causes[-1] if causes else lines[min(1, len(lines) - 1)]
    return cause.removeprefix("Caused by: ").removeprefix(": ")


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
                raise StartupError(
                    f"no Spark session at {master}: {_reason(error)}", hint="see Spark's output above"
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


def _refuse_connect(master: str) -> None:
    if master.startswith("sc:"):
        raise ConfigError(
            f"spark_master = {master!r}: Spark Connect cannot run the jobs, which are made of RDDs",
            hint="give Spark's own master, like spark://host:7077; over Connect there is the data source rocketmq",
        )


def _no_pyspark() -> StartupError:
    return StartupError("PySpark is not installed", hint=install_command("spark"))


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
