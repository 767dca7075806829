"""What was changed at the target and in the group, one JSON object a line."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from structlog.contextvars import bound_contextvars
from structlog.testing import capture_logs

from replicator.observe.audit import Audit


def test_entries_are_lines(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl")
    audit.write({"name": "T"})
    audit.write({"name": "U"})
    audit.close()
    assert [json.loads(line)["name"] for line in (tmp_path / "audit.jsonl").read_text().splitlines()] == ["T", "U"]


def test_a_full_disk_is_told() -> None:
    """The library's handlers would print it, and go on."""
    audit = Audit(Path("/dev/full"))
    with pytest.raises(OSError, match="No space left"):
        audit.write({"name": "T"})
    with contextlib.suppress(OSError):
        audit.close()


def test_only_its_owner_can_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were turned over, too."""
    monkeypatch.setattr("replicator.observe.audit._BYTES", 100)
    audit = Audit(tmp_path / "audit.jsonl")
    for _ in range(5):
        audit.write({"name": "T" * 80})
    audit.close()
    files = [*tmp_path.iterdir()]
    assert len(files) == 4
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_what_people_asked_for_is_found_in_what_was_turned_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last ones, in order; neither what the worker did by itself, nor what a crash has left of a line."""
    monkeypatch.setattr("replicator.observe.audit._BYTES", 400)
    audit = Audit(tmp_path / "audit.jsonl")
    assert audit.asked_for(9) == []
    for number in range(5):
        with bound_contextvars(actor="page 10.0.0.7 (operate)"):
            audit.note_change("connector paused", "w1", number=number)
        audit.note_change("by itself", "w1", filler="x" * 100)
    audit.close()
    assert len([*tmp_path.iterdir()]) > 1
    for line in ('{"at": 1, "actor": "', '{"at": 1e99, "actor": "x"}\n', '[{"actor": "x"}]\n', '{"actor": "\xff'):
        with (tmp_path / "audit.jsonl").open("a", encoding="latin-1") as file:
            file.write(f"{line}\n")
    found = audit.asked_for(3)
    assert [(entry["number"], entry["actor"]) for entry in found] == [
        (number, "page 10.0.0.7 (operate)") for number in (2, 3, 4)
    ]


def test_what_cannot_be_written_is_logged() -> None:
    audit = Audit(Path("/dev/full"))
    with capture_logs() as logs:
        assert "No space left" in audit.note({"name": "T"})
    assert (logs[0]["entry"], logs[0]["log_level"]) == ({"name": "T"}, "error")
    with contextlib.suppress(OSError):
        audit.close()
