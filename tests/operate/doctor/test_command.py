"""How findings are drawn for people."""

from __future__ import annotations

import pytest
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


def lines(*, quiet: bool = False, width: int = 200, found: Examination = FOUND) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(_drawn(found, quiet=quiet))
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


@pytest.mark.parametrize("width", [40, 80])
def test_nothing_is_cropped_on_a_narrow_terminal(width: int) -> None:
    """Neither a word of what was found nor of what to do: both go on below, where they begin, behind the level."""
    message = "control messages are signed by nobody: whoever may write to the system topics moves positions"
    advice = "replicator secret FILE, and set worker_group_secret_file to it on all workers of this group"
    findings = [
        odd("workers", "system topics of west", message, advice),
        bad("rights", "x" * 90, message, "y" * 90),
    ]
    shown = lines(width=width, found=Examination.of(findings))
    assert max(map(len, shown)) <= width
    printed = "".join("".join(shown).split())
    for each in (message, advice, "x" * 90, "y" * 90):
        assert each.replace(" ", "") in printed
    tally = next(number for number, line in enumerate(shown) if line.startswith("1 error"))
    below = [line for line in shown[:tally] if not line.startswith(("warning", "error"))]
    assert all(line.startswith(" " * len("not checked  ")) for line in below)
