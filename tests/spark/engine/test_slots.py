"""Slots are what executors have, whatever users say of parallelism; those of a cluster are waited for."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.spark.engine import slots as module
from replicator.spark.engine.slots import slots, wait_for_slots
from tests.spark.engine.test_user_conf import shown

COUNTED = """
import json
from replicator.spark.engine.session import session
from replicator.spark.engine.slots import slots
with session() as spark:
    print("\\n" + json.dumps({"slots": slots(spark), "default": spark.sparkContext.defaultParallelism}))
"""


@pytest.mark.spark
def test_parallelism_that_users_set_makes_no_slots(tmp_path: Path) -> None:
    """Nor does a task that takes two cores take one."""
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.master local[4]\nspark.default.parallelism 200\nspark.task.cpus 2\n"
    )
    assert shown(sys.executable, "-c", COUNTED, SPARK_CONF_DIR=str(tmp_path)) == {"slots": 2, "default": 200}


@pytest.mark.parametrize(("counts", "found"), [([0, 0, 1, 3, 3, 3, 3, 3, 3, 9], 3), ([0] * 30, 1)])
def test_executors_are_waited_for(counts: list[int], found: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until no more come for a second; with none, for a while."""
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(module, "_LOOK", 0.5)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    monkeypatch.setattr(module, "_registered", lambda _spark: counts[min(int(clock[0] / 0.5), len(counts) - 1)])
    cluster: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="yarn"))
    wait_for_slots(cluster)
    assert slots(cluster) == found
    assert clock[0] <= 15.0
