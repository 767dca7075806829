"""Logs: repeats are counted, the level can be changed, also for loggers that were bound before."""

from __future__ import annotations

import io
import itertools
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import structlog

from replicator.observe.level import Level
from replicator.observe.log_rate_limiter import LogRateLimiter, Suppressed
from replicator.observe.logging import _Lost, configure, get_level, get_logger, log_repeats, set_level


class Clock:
    """A clock that stands until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What is logged, as JSON."""
    found = io.StringIO()
    monkeypatch.setattr("sys.stderr", found)
    configure(level="info", terminal=False)
    yield found
    log_repeats(now=True)
    configure()


def _events(lines: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in lines.getvalue().splitlines()]


def _tries(repeats: LogRateLimiter, event: str, times: int) -> list[dict[str, object]]:
    through = []
    for number in range(times):
        try:
            through.append(dict(repeats(None, "warning", {"event": event, "number": number})))
        except structlog.DropEvent:
            continue
    return through


_ALONE = """
import sys
from replicator.observe.logging import configure, get_logger, log_repeats
configure(terminal=False)
for number in range(300):
    get_logger("somewhere").warning(f"number {number}")
if len(sys.argv) > 1:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
    for number in range(5):
        get_logger("elsewhere").warning(f"number {number}")
        log_repeats()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    get_logger("somewhere").warning("written")
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_under_the_log_costs_lines_alone(unbuffered: str, tmp_path: Path) -> None:
    """How many is logged once others can be written again; of one that was torn the next does not become a part."""
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("wb") as full:
        run = subprocess.run([sys.executable, "-c", _ALONE], stderr=full, env=environment, check=False)
    assert run.returncode == 0
    for spare in (0, 20):
        path = tmp_path / f"log-{spare}"
        with path.open("wb") as file:
            subprocess.run([sys.executable, "-c", _ALONE], stderr=file, env=environment, check=True)
        size = path.stat().st_size
        with path.open("wb") as file:
            command = [sys.executable, "-c", _ALONE, str(size + spare)]
            subprocess.run(command, stderr=file, env=environment, check=True)
        *_, torn, written, told = path.read_text().splitlines()
        assert ("number" in torn) == (spare == 0)
        assert json.loads(written)["event"] == "written"
        found = json.loads(told)
        assert (found["event"], found["count"]) == ("lines could not be logged", 5)
        assert found["reason"] == "[Errno 27] File too large"


class Disk(io.StringIO):
    """A standard error on a disk that may be full."""

    full = False

    def write(self, text: str) -> int:
        if self.full:
            raise OSError(28, "No space left on device")
        return super().write(text)


def test_lost_lines_are_counted_until_their_number_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line that has it may be lost, too, and is then one more."""
    disk, log = Disk(), get_logger("replicator.somewhere")
    monkeypatch.setattr("replicator.observe.logging._lost", _Lost())  # other tests may have left some, and repeats
    monkeypatch.setattr("replicator.observe.logging._repeats", LogRateLimiter())
    monkeypatch.setattr("sys.stderr", disk)
    configure(terminal=False)
    disk.full = True
    for number in range(3):
        log.warning("lost", number=number)
    disk.full = False
    log.warning("written")
    disk.full = True
    log_repeats()
    disk.full = False
    log.warning("written again")
    log_repeats()
    log_repeats()
    assert [line.get("count") for line in _events(disk)] == [None, None, 4]
    configure()


def test_the_first_repeats_of_a_period_stand_and_the_others_are_counted() -> None:
    """Each kind by itself; the next period's first event says how many were left out."""
    clock = Clock()
    repeats = LogRateLimiter(most=3, period=10.0, clock=clock)
    assert [event["number"] for event in _tries(repeats, "waiting", 8)] == [0, 1, 2]
    assert len(_tries(repeats, "other", 2)) == 2
    clock.now += 10
    (again,) = _tries(repeats, "waiting", 1)
    assert again["left_out"] == 5
    assert repeats.take() == []


def test_what_was_left_out_is_told_when_nothing_follows() -> None:
    """Once its period is over; or at the end, whatever the time."""
    clock = Clock()
    repeats = LogRateLimiter(most=3, period=10.0, clock=clock)
    _tries(repeats, "waiting", 8)
    assert repeats.take() == []
    clock.now += 12
    assert repeats.take() == [Suppressed("", "warning", "waiting", 5, 12.0)]
    assert repeats.take() == []
    _tries(repeats, "waiting", 4)
    assert repeats.take(now=True) == [Suppressed("", "warning", "waiting", 1, 0.0)]


def test_what_is_logged_while_the_repeats_are_counted() -> None:
    """By another thread, or by a finalizer in this one."""

    class Interrupted(float):
        at_work = True

        def __le__(self, other: float) -> bool:
            if not self.at_work:
                self.at_work = True
                _tries(repeats, f"new {next(numbers)}", 1)
                self.at_work = False
            return other >= float(self)

    numbers, clock, period = itertools.count(), Clock(), Interrupted(10.0)
    repeats = LogRateLimiter(most=3, period=period, clock=clock)
    for kind in range(10):
        _tries(repeats, f"kind {kind}", 4)
    clock.now += 12
    period.at_work = False
    assert len(repeats.take()) == 10
    assert next(numbers) == 10


def test_a_flood_is_short_and_complete(lines: io.StringIO) -> None:
    """A thousand queues that lose their broker at once are twenty lines and one that counts the others."""
    log = get_logger("replicator.routing.pair")
    for queue in range(1000):
        log.bind(queue=queue).warning("waiting", reason="broker away")
    log_repeats(now=True)  # other tests may have left some, too
    events = [event for event in _events(lines) if str(event["event"]).startswith("waiting")]
    assert [event.get("queue") for event in events[:20]] == list(range(20))
    assert len(events) == 21
    assert (events[-1]["event"], events[-1]["times"], events[-1]["level"]) == ("waiting (more)", 980, "warning")


def test_what_people_ask_for_is_logged_each_time(lines: io.StringIO) -> None:
    """With who asked for it, whether the event says so itself or the request does; it takes no place of others."""
    log = get_logger("replicator.connector.sync")
    with structlog.contextvars.bound_contextvars(actor="REST 10.0.0.1"):
        for name in range(25):
            log.info("target changed", name=name)
    for name in range(25):
        log.info("target changed", name=name, actor="page 10.0.0.2 (admin)")
    for name in range(25):
        log.info("target changed", name=name)
    events = _events(lines)
    assert [event.get("actor") for event in events] == (
        ["REST 10.0.0.1"] * 25 + ["page 10.0.0.2 (admin)"] * 25 + [None] * 20
    )


def test_the_level_changes_for_bound_loggers_too(lines: io.StringIO) -> None:
    """At each level that is in force, what is less severe is not logged."""
    bound = get_logger("replicator.x").bind(queue=1)
    levels = get_args(Level)
    for least in levels:
        set_level(least)
        assert get_level() == least
        for level in levels:
            getattr(bound, level)(f"{level} at {least}")
    logged = [event["event"] for event in _events(lines)]
    assert logged == [f"{level} at {least}" for i, least in enumerate(levels) for level in levels[i:]]


def test_exceptions_are_errors(lines: io.StringIO) -> None:
    """Whatever the level."""
    set_level("error")
    try:
        raise ValueError("why")
    except ValueError:
        get_logger("replicator.x").exception("failed")
    (event,) = _events(lines)
    assert event["level"] == "error"
    assert "ValueError: why" in str(event["exception"])


def test_what_libraries_log_comes_in_our_form(lines: io.StringIO) -> None:
    """With its exception, once; below a warning it is left out."""
    library = logging.getLogger("some.library")
    library.info("Added job")
    library.warning("Execution of job %r skipped", "once")
    try:
        raise ValueError("no such thing")
    except ValueError:
        library.exception("Job raised an exception")
    first, second = _events(lines)
    assert first["event"] == "Execution of job 'once' skipped"
    assert (first["level"], first["module"]) == ("warning", "some.library")
    assert (second["event"], second["level"]) == ("Job raised an exception", "error")
    assert "ValueError: no such thing" in str(second["exception"])


def test_warnings_come_in_our_form() -> None:
    """In a process of its own: pytest keeps them to itself."""
    program = (
        "import warnings; from replicator.observe.logging import configure; configure(terminal=False);"
        "warnings.warn('it is old', UserWarning)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    (event,) = [json.loads(line) for line in ended.stderr.splitlines()]
    assert "UserWarning: it is old" in event["event"]
    assert (event["level"], event["module"]) == ("warning", "py.warnings")


def test_long_reasons_are_cut(lines: io.StringIO) -> None:
    log = get_logger("test")
    log.info("waiting", reason="x" * 500)
    log.info("waiting", reason="y" * 1500)
    short, cut = _events(lines)
    assert short["reason"] == "x" * 500
    assert cut["reason"] == "y" * 500 + "… (1000 more characters)"


def test_on_a_terminal_nothing_that_others_say_changes_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colours are the log's own; in JSON such characters are escaped anyway."""
    found = io.StringIO()
    monkeypatch.setattr("sys.stderr", found)
    configure(level="info", terminal=True)
    get_logger("replicator.shown").warning("broker\x9b2J refused", reason="a\u202e\x1b[2J\nb", count=3)
    configure(level="info", terminal=False)
    assert "\x9b" not in found.getvalue()
    assert "\u202e" not in found.getvalue()
    assert "\x1b[2J" not in found.getvalue()
    assert "broker 2J refused" in found.getvalue()
