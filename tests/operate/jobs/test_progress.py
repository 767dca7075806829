"""What a person sees of a job on a terminal: how much, how fast, how long still."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from replicator.operate.jobs import progress


def test_bars_with_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of messages and of queues."""
    now = 100.0
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120, color_system=None, get_time=lambda: now)
    monkeypatch.setattr(progress, "Console", lambda stderr: console)
    with progress.watched("backfill", port=None, queues=4, messages=100_000) as job:
        for second in range(1, 6):
            now = 100.0 + second
            job.moved(10_000 * second)
        job.ended(messages=50_000, failed=False, findings={})
    shown = screen.getvalue()
    assert "50,000 of 100,000" in shown
    assert "10,000/s" in shown
    assert "0:00:05 left 0:00:05" in shown
    assert "1 of 4" in shown
    of_queues = [line for line in re.split(r"[\r\n]", shown) if "of 4 " in line]
    assert of_queues
    assert not any("/s" in line for line in of_queues)
