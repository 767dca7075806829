"""The report of `verify`: its verdict, what it draws and where it is written, and windows as they are given."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from replicator.errors import ConfigError, StartupError
from replicator.operate.jobs.offset_bounds import OffsetBound, offset_bound
from replicator.operate.jobs.verify_report import ReportFile, Verdict, conclusion, render
from replicator.ranges.comparer import Caveat, Compared
from replicator.ranges.findings import Finding
from replicator.ranges.pairing import RUN


def drawn(*found: Compared) -> str:
    return render(found, Verdict.of(found, window=False))


def _bars(report: str) -> list[str]:
    drawn = report.split("```")[1].strip().splitlines()
    return [line.split()[1] for line in drawn[:-1]]


def test_queues_are_drawn_to_one_scale() -> None:
    """What is equal, differs, is behind, or was not compared; a queue that could not be read differs as a whole."""
    reach = 60 * RUN
    whole = Compared("t/a/0", "t/b/0", 0, reach, 0)
    half = Compared("t/a/1", "t/b/1", 0, reach // 2, reach // 4)
    damaged = Compared("t/a/2", "t/b/2", 10 * RUN, reach, 0, counts={"missing": 3}, differing=[12, 59])
    broken = Compared("t/a/3", "t/b/3", 0, 0, 0, error="gone")
    report = drawn(whole, half, damaged, broken)
    assert _bars(report) == [
        "█" * 60,
        "█" * 30 + "░" * 15 + "·" * 15,
        "·" * 10 + "██!" + "█" * 46 + "!",
        "!" * 60,
    ]
    assert "They differ." in report
    assert "- missing: 3" in report
    assert f"offsets 0 to {reach}" in report


def test_one_message_that_differs_is_seen() -> None:
    """However much there is beside it, and wherever the offsets begin."""
    far = 10**9
    run = (far + 10**7 // 2) // RUN
    found = Compared("t/a/0", "t/b/0", far, far + 10**7, 0, counts={"body": 1}, differing=[run])
    assert _bars(drawn(found)) == ["█" * 29 + "!!" + "█" * 29]


def test_a_difference_beside_what_was_compared_is_seen() -> None:
    """A copy of what the source never had, others' messages in a queue that has no copies yet, at any offset."""
    whole = Compared("t/a/0", "t/b/0", 0, 60 * RUN, 0)
    unknown = Compared("t/a/1", "t/b/1", 0, 30 * RUN, 0, counts={"unknown": 1}, differing=[244])
    empty = Compared("t/a/2", "t/b/2", 60 * RUN, 60 * RUN, 0, counts={"extra": 1}, differing=[60])
    assert _bars(drawn(whole, unknown, empty)) == ["█" * 60, "█" * 30 + "!" + "·" * 29, "·" * 59 + "!"]
    assert _bars(drawn(Compared("t/a/0", "t/b/0", 0, 0, 0, counts={"extra": 1}))) == ["!" + "·" * 59]


def test_where_nothing_was_compared_nothing_is_drawn() -> None:
    assert _bars(drawn(Compared("t/a/0", "t/b/0", 7, 7, 0))) == ["·" * 60]
    assert "\nNothing was compared, because the source has no messages" in drawn()


def test_findings_stand_below() -> None:
    """With their coordinates on both sides, and by what they can be looked up; odd keys cannot break the lines."""
    first = [
        Finding("body", 4, 5, "a became b", "7F01", "order-1 order-2", 1_769_839_200_007),
        Finding("missing", 6, None, "", "7F02", "a\n# b", 0),
        Finding("missing", 7, None),
    ]
    report = drawn(Compared("t/a/0", "t/b/1", 0, 9, 0, counts={"body": 1, "missing": 2}, findings=first))
    keys = "UNIQ_KEY=7F01 KEYS=order-1 order-2 stored=2026-01-31T06:00:00.007+00:00"
    assert f"- body: source t/a/0/4 target t/b/1/5 (a became b) {keys}\n" in report
    assert "- missing: source t/a/0/6 UNIQ_KEY=7F02 KEYS='a\\n# b' stored=1970-01-01T00:00:00.000+00:00\n" in report
    assert "- missing: source t/a/0/7\n" in report


def queue(end: int = 0, behind: int = 0, *, start: int = 0, messages: int = 0) -> Compared:
    return Compared("t/a/0", "t/b/0", start, end, behind, selected=messages, copies=messages)


def test_they_agree_only_where_something_was_compared() -> None:
    """A window may be empty, the target be another one; a queue that was never used has nothing to compare."""
    both = Verdict.of([queue(9, messages=9), queue(0, 5)], window=False)
    assert (both, both.clean) == (Verdict.AGREE, True)
    for found, window, words in (
        ([queue(0, 9), queue()], False, "the target has no copies"),
        ([queue(7, start=7), queue()], False, "has them no longer"),
        ([queue(9), queue()], False, "has no messages to compare"),  # a filter selects none
        ([queue()], True, "has no messages to compare"),
        ([], False, "has no messages to compare"),
    ):
        verdict = Verdict.of(found, window=window)
        assert not verdict.clean
        assert words in verdict
        assert "gree" not in render(found, verdict)
    empty = Verdict.of([queue(), queue()], window=False)
    assert (empty, empty.clean) == (Verdict.EMPTY, True)
    assert "\nThe source has had no messages yet" in render([queue()], empty)


def test_what_differs_differs_whatever_was_compared() -> None:
    wrong, unread = Compared("t/a/0", "t/b/0", 0, 0, 0, counts={"extra": 1}), Compared("q", "q", 0, 0, 0, error="x")
    assert Verdict.of([queue(), unread, wrong], window=True) is Verdict.DIFFER


def test_what_was_not_compared_does_not_agree_and_does_not_differ() -> None:
    """A queue that could not be read, and one without copies, which may be on a broker that is away."""
    same = queue(9, messages=9)
    unread = Compared("t/a/1", "t/b/1", 0, 9, 0, error="it is away")
    uncopied = Compared("t/a/2", "t/b/2", 0, 0, 9, caveat=Caveat.NO_COPIES)
    deleted = Compared("t/a/3", "t/b/3", 0, 0, 9, caveat=Caveat.DELETED)
    for found, reason in (
        ([same, unread], "1 queues could not be read: run it again"),
        ([unread], "1 queues could not be read: run it again"),
        ([same, uncopied, uncopied], "2 queues have no copies at all: check that all brokers of the target run"),
    ):
        verdict = Verdict.of(found, window=False)
        assert (verdict, verdict.clean) == (Verdict.INCOMPLETE, False)
        assert conclusion(found, verdict) == f"nothing differs, but not all could be compared: {reason}"
        assert f"\nNothing differs, but not all could be compared: {reason}.\n" in render(found, verdict)
    assert Verdict.of([uncopied], window=False) is Verdict.NO_COPIES
    assert Verdict.of([same, deleted], window=False) is Verdict.AGREE
    report = render([unread, uncopied, deleted], Verdict.INCOMPLETE)
    for note in ("it is away", "it has no copies at all", "the target's retention has deleted copies"):
        assert f"| {note}" in report


def test_a_report_takes_the_place_of_the_last_one(tmp_path: Path) -> None:
    """That stays until there is another, and where that cannot be written; nothing is left beside it."""
    path = tmp_path / "report.md"
    path.write_text("the last one")
    file = ReportFile(path)
    assert path.read_text() == "the last one"
    with pytest.raises(UnicodeEncodeError):
        file.write("cut off: \ud800")
    assert path.read_text() == "the last one"
    file.write("this one")
    assert path.read_text() == "this one"
    assert [*tmp_path.iterdir()] == [path]


def test_what_is_no_plain_file_is_written_to(tmp_path: Path) -> None:
    """A link stays one; trying a pipe does not wait for its reader."""
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(tmp_path / "there")
    os.mkfifo(pipe)
    files = ReportFile(link), ReportFile(pipe)
    files[0].write("one")
    assert (link.is_symlink(), (tmp_path / "there").read_text()) == (True, "one")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    files[1].write("two")
    reader.join(10)
    assert read == ["two"]


@pytest.mark.parametrize("name", ["no-directory/report.md", "file/report.md", "."])
def test_a_report_that_cannot_be_written_is_refused_at_once(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartupError, match="cannot be written"):
        ReportFile(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("0", OffsetBound(0, is_time=False)),
        ("12345", OffsetBound(12345, is_time=False)),
        ("2026-01-31T06:00:00Z", OffsetBound(1769839200000, is_time=True)),
        ("2026-01-31T06:00:00", OffsetBound(1769839200000, is_time=True)),
        ("1970-01-01T00:00:01.001", OffsetBound(1001, is_time=True)),  # as a float it would be 1000.9999
    ],
)
def test_edges(text: str | None, expected: OffsetBound | None) -> None:
    assert offset_bound("--from", text) == expected


@pytest.mark.parametrize("text", ["", "-1", "yesterday", "12.5"])
def test_what_is_no_edge_is_refused(text: str) -> None:
    """With the option's name and what may be given."""
    with pytest.raises(ConfigError, match=r"--to = .* is neither a queue offset nor a time"):
        offset_bound("--to", text)
