"""Slots are what executors have, whatever users say of parallelism; those of a cluster are waited for."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.errors import ConfigError
from replicator.spark.engine import slots as module
from replicator.spark.engine.slots import refuse_no_executors, slots, wait_for_slots
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

    monkeypatch.setattr(module, "_POLL_INTERVAL", 0.5)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    monkeypatch.setattr(module, "_registered", lambda _spark: counts[min(int(clock[0] / 0.5), len(counts) - 1)])
    cluster: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="yarn"))
    wait_for_slots(cluster)
    assert slots(cluster) == found
    assert clock[0] <= 15.0


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({}, False),
        ({"spark.dynamicAllocation.enabled": "false"}, False),
        ({"spark.dynamicAllocation.enabled": "true"}, True),
        ({"spark.dynamicAllocation.enabled": "True", "spark.dynamicAllocation.minExecutors": "0"}, True),
        ({"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.minExecutors": "2"}, False),
        ({"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.initialExecutors": "1"}, False),
        ({"spark.dynamicAllocation.enabled": "true", "spark.executor.instances": "1"}, False),
    ],
)
def test_dynamic_allocation_begins_with_executors(given: dict[str, str], refused: bool) -> None:
    """Or all queues would be copied by the first one that comes, for good."""
    conf = SimpleNamespace(get=given.get)
    cluster: Any = SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: conf))
    if not refused:
        refuse_no_executors(cluster)
        return
    with pytest.raises(ConfigError, match=r"minExecutors = 0: queues are divided") as error:
        refuse_no_executors(cluster)
    assert "set spark.dynamicAllocation.minExecutors" in error.value.hint
