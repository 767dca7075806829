"""Spark finds the data source by itself, and the package by which it does breaks nobody else's."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql.datasource import DataSource

from pyspark_rocketmq import DefaultSource
from replicator.spark.source.datasource import RocketMQDataSource

#: What Spark does in a process of its own when a session needs its first Python data source.
LOOK_UP = """
import sys
import pyspark.sql.datasource
before = set(sys.modules)
import pyspark_rocketmq
assert issubclass(pyspark_rocketmq.DefaultSource, pyspark.sql.datasource.DataSource)
assert pyspark_rocketmq.DefaultSource.name() == "rocketmq"
print(*sorted(set(sys.modules) - before))
"""


def test_looking_it_up_imports_nothing() -> None:
    """Whatever is missing on that machine, other data sources are found."""
    command = [sys.executable, "-c", LOOK_UP]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ran.stdout.split() == ["pyspark_rocketmq"]


def test_it_is_the_data_source() -> None:
    """Method by method."""
    methods = {name for name in vars(RocketMQDataSource) if not name.startswith("_")}
    assert methods == {name for name in vars(DefaultSource) if not name.startswith("_")}
    assert methods <= set(dir(DataSource))
    assert DefaultSource({}).schema() == RocketMQDataSource({}).schema()


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is used, with the way out."""
    monkeypatch.delitem(sys.modules, "replicator.spark.source.datasource")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        ImportError, match=r"lacks a package \(.*pyarrow.*\): pip install 'rocketmq-replicator\[spark\]'"
    ):
        DefaultSource({}).schema()
