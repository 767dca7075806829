"""HDFS without a name node: one error that names the place and the way out, soon."""

from __future__ import annotations

import sys

import pytest

from replicator.errors import StartupError
from replicator.spark.jobs import hdfs
from replicator.spark.jobs.location import Location


def test_the_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native.fsspec", None)
    with pytest.raises(StartupError, match=r"hdfs:// needs hdfs-native.*pip install .*\[hdfs\]'"):
        Location.of("hdfs://127.0.0.1:1/hdfs-without-its-extra")


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given up after some attempts."""
    monkeypatch.setitem(hdfs._PATIENCE, "dfs.client.failover.max.attempts", "1")
    location = Location.of("hdfs://127.0.0.1:1/nobody-listens")
    with pytest.raises(OSError, match="refused") as error:
        location.read("x")
    said = str(location.failed("read", error.value))
    assert said.startswith("directory = 'hdfs://127.0.0.1:1/nobody-listens' cannot be read (Connection refused")
    assert said.endswith("check the name node, HADOOP_CONF_DIR and the user (HADOOP_USER_NAME)")
