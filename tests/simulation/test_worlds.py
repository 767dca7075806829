"""Whole workers in simulated worlds: what must hold does, a seed is a run, and the judges see errors."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

#: Worlds of each test; those of one take 20 seconds of a core.
_WORLDS = 50
_MORE = [pytest.param(1 + part * _WORLDS, marks=pytest.mark.worlds) for part in (1, 2, 3)]


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """As `make simulate` does."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)


@pytest.mark.parametrize("first", [1, *_MORE])
def test_nothing_is_lost_or_done_twice_and_all_is_copied_in_the_end(first: int) -> None:
    run = simulate("--first", str(first), "--seeds", str(_WORLDS))
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert f"{_WORLDS} worlds, 0 failed" in run.stdout


def test_the_same_seed_is_the_same_run() -> None:
    """Event by event, in another process; and another seed is another run."""
    digests = [re.findall(r"run ([0-9a-f]{16})", simulate("--seed", seed).stdout) for seed in ("7", "7", "8")]
    assert digests[0] == digests[1] != digests[2]
    assert all(len(each) == 1 for each in digests)


@pytest.mark.parametrize(
    "mutant",
    [
        "one-skipped",
        *(pytest.param(each, marks=pytest.mark.worlds) for each in ("commit-before-the-answer", "tail-not-read")),
    ],
)
def test_an_error_in_the_code_is_found(mutant: str) -> None:
    """In one of sixty worlds: which of them shows it changes with every change of the code's timing."""
    run = simulate("--mutants", "--mutant", mutant, "--seeds", "60")
    assert f"| {mutant} |" in run.stdout
    assert run.returncode == 0, run.stdout
