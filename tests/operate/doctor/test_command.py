"""How findings are drawn for people."""

from __future__ import annotations

from rich.console import Console

from replicator.operate.doctor.command import _drawn
from replicator.operate.doctor.finding import Examination, bad, good, odd, unchecked

FOUND = Examination.of(
    [
        good("source broker", "a", "RocketMQ 5.3.3"),
        odd("topics", "orders", "it is of another kind", "choose another name"),
        bad("rights", "x" * 50, "denied:\n\tat org.apache\x1b[2J", "grant it"),
        unchecked("groups", "a", "its groups, because it does not answer"),
    ]
)


def lines(*, quiet: bool) -> list[str]:
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        console.print(_drawn(FOUND, quiet=quiet))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_one_line_each() -> None:
    """In columns, which a long name does not widen; what to do stands below."""
    assert lines(quiet=False) == [
        "ok           source broker  a       RocketMQ 5.3.3",
        "warning      topics         orders  it is of another kind",
        "             → choose another name",
        f"error        rights         {'x' * 50}  denied:  at org.apache [2J",
        "             → grant it",
        "not checked  groups         a       its groups, because it does not answer",
        "1 error, 1 warning, 1 not checked, of 4 checks",
    ]


def test_quietly() -> None:
    """Only what is not ok, in columns of their own."""
    first, *_, last = lines(quiet=True)
    assert first == "warning      topics  orders  it is of another kind"
    assert last == "1 error, 1 warning, 1 not checked, of 4 checks"
