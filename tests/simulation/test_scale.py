"""A group of thousands of queues in virtual time: what a start, a takeover and a rebalance wait for."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(("size", "count"), [pytest.param(1000, 4, marks=pytest.mark.worlds), (3000, 5)])
def test_a_group_at_size(size: int, count: int) -> None:
    """In a process of its own, since the simulation takes over the clocks."""
    command = [sys.executable, "-m", "tests.simulation.scale", "--queues", str(size), "--workers", str(count)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    queues, workers, start, _, takeover, _, rebalance, *_ = run.stdout.splitlines()[-1].strip("| ").split(" | ")
    assert (queues, workers) == (f"{size:,}", str(count))
    # Virtual seconds, in steps of half a second; which worker speaks first differs from run to run. A takeover
    # begins when the session of the killed worker is over.
    assert float(start) <= 10
    assert float(takeover) <= 12
    assert float(rebalance) <= 8
