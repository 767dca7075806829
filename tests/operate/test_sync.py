"""What the terminal shows of a failover."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from replicator.operate.sync import _topics


def drawn(**known: Any) -> list[str]:
    topic = {"topic": "orders", "target": "orders", "messages": 5, "counted": True, "seconds": 2, "problem": ""}
    audit = {"topic": "orders", "not_verified": 0, "differences": {}}
    found = {"topics": [topic | {"seconds_known": True} | known], "verified": [audit]}
    console = Console(width=120, record=True)
    console.print(_topics(found))
    return console.export_text().splitlines()[1].split("  ")


def test_what_is_missing_and_how_old_it_is() -> None:
    row = [cell.strip() for cell in drawn() if cell.strip()]
    assert row == ["orders", "orders", "5", "2.0", "0", "0"]


def test_what_is_not_known_is_not_shown_as_a_number() -> None:
    """Of a source that is dead the age of what is missing may not be known, and only how much it is at most."""
    row = [cell.strip() for cell in drawn(counted=False, seconds_known=False, seconds=0) if cell.strip()]
    assert row == ["orders", "orders", "up to 5", "not known", "0", "0"]
