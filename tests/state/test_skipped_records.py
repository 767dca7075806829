"""Records that do not fit are counted each time, and logged once per key."""

from __future__ import annotations

from structlog.testing import capture_logs

from replicator.state.skipped_records import SkippedRecords


def test_each_is_counted_and_each_key_logged_once() -> None:
    skipped = SkippedRecords()
    with capture_logs() as logs:
        for key in ("a", "b", "a"):
            skipped.add("topic", key, "why")
        skipped.add("file", "a", "why")
    assert skipped.counts == {"topic": 3, "file": 1}
    assert [entry["record"] for entry in logs] == ["a", "b"]
