"""What Spark has not answered is not taken for equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replicator.ranges.comparer import Compared
from replicator.ranges.copy_job import Range
from replicator.routing.queue_map import Queue
from replicator.spark.jobs import verify
from replicator.spark.jobs.verify import RangeToCompare, compare_all


def test_each_queue_has_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever became of its task."""

    def run(*_: object, on_outcome: Callable[[Compared], None], **_more: object) -> None:
        on_outcome(Compared("T/a/0", "T/b/0", 0, 9, 0))

    monkeypatch.setattr(verify, "run_rate_limited", run)
    parts = [Range("T", Queue("a", i), "T", Queue("b", i), 0, 9) for i in range(2)]
    found: list[Compared] = []
    job: Any = None
    compare_all(None, job, [RangeToCompare(part, there=True) for part in parts], on_compared=found.append)
    assert [(each.key, bool(each.error)) for each in found] == [("T/a/0", False), ("T/a/1", True)]
    assert not found[0].counts
    assert "no outcome" in found[1].error
