"""An archive of the classes that Spark loads when it starts: its JVMs start with half of the CPU."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark

from replicator.sandbox import jars
from replicator.spark.engine.java import java_home

__all__ = ["archive_flags"]

#: A JVM says on its standard output, which tests read, why it cannot use an archive: it does so now and then.
_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"

#: What a driver does at first: a plan, a task, Python, Arrow.
_STARTING = """
from replicator.spark.engine.session import session
with session(master="local[2]") as spark:
    spark.range(10).mapInArrow(lambda batches: batches, "id long").count()
"""


@functools.cache
def archive_flags() -> str:
    """A JVM's flags to use it; it is made at the first call on a machine. A JVM ignores one that does not fit."""
    if (home := java_home()) is None:
        home = Path(os.environ["JAVA_HOME"]) if "JAVA_HOME" in os.environ else _home_on_path()
    release = (home / "release").read_text() if (home / "release").exists() else str(home)
    seal = hashlib.sha256(f"{home} {release} {pyspark.__file__} {pyspark.__version__}".encode()).hexdigest()[:20]
    path = jars.cache_directory().parent / "class-archives" / f"spark-{seal}.jsa"
    with contextlib.suppress(OSError, subprocess.SubprocessError):  # without one they only start slower
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                _make(path)
    return f"-Xshare:auto -XX:SharedArchiveFile={path} {_SILENT}" if path.exists() else ""


def _home_on_path() -> Path:
    found = shutil.which("java")
    return Path(found).resolve().parent.parent if found else Path("/")


def _make(path: Path) -> None:
    fresh = path.with_suffix(".fresh")
    options = f"-XX:ArchiveClassesAtExit={fresh} {_SILENT}"
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": options}
    environment.pop("SPARK_CONF_DIR", None)
    subprocess.run([sys.executable, "-c", _STARTING], env=environment, check=True, timeout=240, capture_output=True)
    fresh.replace(path)
