"""What was changed at the target, one JSON object a line."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

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
