"""`replicator verify` around its Spark job: what it tries before, and what it says after."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from replicator.cli import app
from replicator.errors import StartupError
from replicator.operate.jobs import verify
from replicator.ranges.comparer import Compared
from replicator.ranges.findings import Finding

SIDES = ("--source", "a:1", "--target", "b:1")
SAME = Compared("t/a/0", "t/b/0", 0, 9, 0, selected=9, copies=9)


class Job:
    """In place of the clusters and of Spark, which finds `found` and does what is in `meanwhile`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *found: Compared) -> None:
        self.begun = False
        self.meanwhile: Callable[[], object] = list

        async def plan(*_: Any, **__: Any) -> tuple[Any, list[Any]]:
            self.begun = True
            return None, [*found]

        def compare_all(_spark: Any, _job: Any, _ranges: Any, *, on_compared: Any) -> None:
            self.meanwhile()
            for each in found:
                on_compared(each)

        monkeypatch.setattr(verify, "_plan", plan)
        monkeypatch.setattr(verify, "compare_all", compare_all)
        monkeypatch.setattr(verify, "session", lambda **_: nullcontext())
        watching = nullcontext(SimpleNamespace(ended=lambda **_: None))
        monkeypatch.setattr(verify, "watched", lambda *_, **__: watching)


def verified(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["verify", *SIDES, *arguments])


def test_where_nothing_was_compared_nothing_is_said_to_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    Job(monkeypatch, Compared("t/a/0", "t/b/0", 0, 0, 9))
    ended = verified("-o", "json")
    assert (ended.exit_code, json.loads(ended.stdout)["clean"]) == (5, False)
    ended = verified()
    assert ended.exit_code == 5
    assert "nothing was compared, because the target has no copies" in " ".join(ended.stdout.split())


def test_an_empty_window_is_no_agreement(monkeypatch: pytest.MonkeyPatch) -> None:
    """While topics that were never used are: nothing can be missing."""
    Job(monkeypatch, Compared("t/a/0", "t/b/0", 0, 0, 0))
    assert verified("--from", "5").exit_code == 5
    ended = verified()
    assert ended.exit_code == 0
    assert "the source has had no messages yet" in ended.stdout


def test_a_report_that_cannot_be_written_costs_no_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is found out before a cluster is asked."""
    job = Job(monkeypatch, SAME)
    ended = verified("--report", str(tmp_path / "none" / "report.md"))
    assert isinstance(ended.exception, StartupError)
    assert not job.begun


def test_the_outcome_is_shown_whatever_becomes_of_the_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job = Job(monkeypatch, SAME)
    place = tmp_path / "reports"
    place.mkdir()
    ended = verified("--report", str(place / "report.md"))
    assert ended.exit_code == 0, ended.exception
    assert "They agree." in (place / "report.md").read_text()
    job.meanwhile = lambda: place.rename(tmp_path / "moved")
    ended = verified("--report", str(place / "report.md"))
    assert "source and target agree" in ended.stdout
    assert isinstance(ended.exception, StartupError)


def test_what_people_read_of_it_fits_on_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some findings of each kind, how many there are, and what to do where only messages of others are found."""
    extras = [Finding("extra", None, offset) for offset in range(20)]
    Job(
        monkeypatch,
        *(Compared(f"t/a/{i}", "t/b/0", 0, 9, 10, counts={"extra": 30}, findings=extras) for i in (1, 2)),
    )
    lines = verified().stdout.splitlines()
    assert sum(line.startswith("extra: ") for line in lines) == 20
    assert "in all: extra 60" in lines
    assert any(line.startswith("behind: offsets of the source after a queue's last copy") for line in lines)
    assert any("give --ignore-extra" in line for line in lines)
    assert lines[-1] == "source and target differ"
    assert sum(len(queue["findings"]) for queue in json.loads(verified("-o", "json").stdout)["queues"]) == 40


def test_what_is_wrong_is_not_called_extra_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"missing": 1, "extra": 1}
    Job(monkeypatch, Compared("t/a/0", "t/b/0", 0, 9, 0, counts=counts, findings=[Finding("missing", 3, None)]))
    shown = verified().stdout
    assert "in all: missing 1, extra 1" in shown
    assert "--ignore-extra" not in shown
    assert "behind:" not in shown
