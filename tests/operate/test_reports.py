"""What jobs find out is printed whole: nothing of it is missing in the reports, and no word of it unknown."""

from __future__ import annotations

import json
from typing import get_args

import msgspec
import pytest

import acl_sync.model
from acl_sync.plan import Verb
from replicator.command_output import Output
from replicator.operate.jobs.outcomes import show_copied
from replicator.operate.reports import AclAction, ComparedQueue, Dialect, ExportedQueue, FindingKind
from replicator.ranges.comparer import Compared
from replicator.ranges.copy_job import CopyOutcome, Range
from replicator.ranges.findings import KINDS, Finding
from replicator.routing.queue_map import Queue
from replicator.routing.recovery import CopyRecord
from replicator.spark.jobs.archive import File
from replicator.spark.jobs.export import Exported
from tests.support.printed import check_printed

RANGE = Range("T", Queue("a", 0), "T", Queue("b", 0), 0, 10)


def test_a_copied_range(capsys: pytest.CaptureFixture[str]) -> None:
    """With names for the offsets of its last copy."""
    known = CopyOutcome(RANGE.key, 0, 10, copied=10, left_out={"tag": 1}, tail=CopyRecord(9, 1234, 99))
    show_copied([RANGE], {RANGE.key: known}, Output.JSON)
    printed = capsys.readouterr().out
    check_printed(("backfill", "-o", "json"), printed)
    (queue,) = json.loads(printed)["queues"]
    assert queue["tail"] == {"source": 9, "stored": 1234, "target": 99}
    assert queue.keys() == {*CopyOutcome.__struct_fields__}


def test_an_exported_range() -> None:
    found = Exported("T/a/0", 0, 10, messages=10, files=[File("topic=T/a-0.parquet", 10, 0, 9, 4711)])
    given = msgspec.to_builtins(found)
    assert ExportedQueue.model_validate(given).model_dump() == given


def test_a_compared_queue() -> None:
    findings = [Finding("missing", 3, None), Finding("extra", None, 4, "of others")]
    found = Compared(
        "T/a/0", "T/b/0", 0, 10, 0, counts={"missing": 1, "extra": 1}, findings=findings, differing=[0]
    )
    given = msgspec.to_builtins(found)
    assert ComparedQueue.model_validate(given).model_dump() == given


def test_words_are_those_of_the_code() -> None:
    """Kinds of findings, of access control, of changes to accounts."""
    assert get_args(FindingKind) == KINDS
    assert get_args(Dialect) == tuple(acl_sync.model.Dialect)
    assert get_args(AclAction.model_fields["action"].annotation) == tuple(Verb)
