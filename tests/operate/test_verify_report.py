"""The report of `verify`: what it draws, and windows as they are given."""

from __future__ import annotations

import pytest

from replicator.errors import ConfigError
from replicator.operate.offset_bounds import OffsetBound, offset_bound
from replicator.operate.verify_report import render
from replicator.ranges.comparer import Compared
from replicator.ranges.findings import Finding
from replicator.ranges.pairing import RUN


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
    report = render([whole, half, damaged, broken])
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
    assert _bars(render([found])) == ["█" * 29 + "!!" + "█" * 29]


def test_a_difference_beside_what_was_compared_is_seen() -> None:
    """A copy of what the source never had, others' messages in a queue that has no copies yet, at any offset."""
    whole = Compared("t/a/0", "t/b/0", 0, 60 * RUN, 0)
    unknown = Compared("t/a/1", "t/b/1", 0, 30 * RUN, 0, counts={"unknown": 1}, differing=[244])
    empty = Compared("t/a/2", "t/b/2", 60 * RUN, 60 * RUN, 0, counts={"extra": 1}, differing=[60])
    assert _bars(render([whole, unknown, empty])) == ["█" * 60, "█" * 30 + "!" + "·" * 29, "·" * 59 + "!"]
    assert _bars(render([Compared("t/a/0", "t/b/0", 0, 0, 0, counts={"extra": 1})])) == ["!" + "·" * 59]


def test_where_nothing_was_compared_nothing_is_drawn() -> None:
    assert _bars(render([Compared("t/a/0", "t/b/0", 7, 7, 0)])) == ["·" * 60]
    assert "They agree." in render([])


def test_findings_stand_below() -> None:
    """With their coordinates on both sides, and by what they can be looked up; odd keys cannot break the lines."""
    first = [
        Finding("body", 4, 5, "a became b", "7F01", "order-1 order-2", 1_769_839_200_007),
        Finding("missing", 6, None, "", "7F02", "a\n# b", 0),
        Finding("missing", 7, None),
    ]
    report = render([Compared("t/a/0", "t/b/1", 0, 9, 0, counts={"body": 1, "missing": 2}, findings=first)])
    keys = "UNIQ_KEY=7F01 KEYS=order-1 order-2 stored=2026-01-31T06:00:00.007+00:00"
    assert f"- body: source t/a/0/4 target t/b/1/5 (a became b) {keys}\n" in report
    assert "- missing: source t/a/0/6 UNIQ_KEY=7F02 KEYS='a\\n# b' stored=1970-01-01T00:00:00.000+00:00\n" in report
    assert "- missing: source t/a/0/7\n" in report


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
