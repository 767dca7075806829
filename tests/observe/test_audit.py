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
