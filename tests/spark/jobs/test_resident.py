"""Jobs of resident queues, as they are given to Spark."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.spark.jobs import resident
from replicator.spark.jobs.resident import ResidentJobs


def test_a_jobs_secrets_are_in_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark writes what is parallelized to one; the function, which has the job, it sends."""
    ran: list[object] = []
    parallelized: list[object] = []

    class Context:
        def setJobGroup(self, *_: object) -> None:  # noqa: N802 - Spark's name
            """Of the thread."""

        def parallelize(self, rows: list[object], slices: int) -> Context:
            parallelized.extend([*rows, slices])
            return self

        def mapPartitions(self, work: Callable[[Any], Any]) -> Any:  # noqa: N802 - Spark's name
            return SimpleNamespace(count=lambda: len([*work(iter([None]))]))

    monkeypatch.setattr(resident, "configure", lambda **_: None)
    monkeypatch.setattr(resident, "reside", lambda job: job)
    monkeypatch.setattr(resident, "run", ran.append)
    jobs, job = ResidentJobs(None), SimpleNamespace(number=7, log_level="info")
    jobs._spark = SimpleNamespace(sparkContext=Context())
    jobs.run(job)  # type: ignore[arg-type]
    assert ran == [job]
    assert parallelized == [None, 1]
