"""`replicator top`: one screen, the worst first, with rates and what is left to do."""

from __future__ import annotations

from io import StringIO
from typing import Any

from rich.console import Console

from replicator.operate.top_view import Look, TopView

CLUSTER = {
    "source": "east",
    "target": "west",
    "workers": [
        {
            "worker_id": "w1",
            "address": "127.0.0.1:8082",
            "version": "0.1.0",
            "state": "online",
            "tasks": 3,
            "leader": True,
            "takes_tasks": True,
            "waiting_for": "",
        }
    ],
}


def topic(name: str, **values: Any) -> dict[str, Any]:
    zeros = (
        *("stalled", "copied", "lag_messages", "gap_messages", "target_lost", "duplicates", "foreign", "skipped"),
        "audit_differences",
    )
    known = dict.fromkeys(zeros, 0) | {"topic": name, "state": "RUNNING", "severity": 2, "lag_seconds": 0.0}
    return {**known, **values}


def look(at: float, *topics: dict[str, Any], connector: str = "route") -> Look:
    status = {"connector": {"state": "RUNNING"}, "topics": list(topics)}
    return Look(at, CLUSTER, {connector: {"status": status}})


def drawn(view: TopView, seen: Look, *, width: int = 80, height: int = 24) -> list[str]:
    console = Console(file=StringIO(), width=width, height=height)
    console.print(view.draw(seen, clock="12:00:00", height=height))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().splitlines()


def test_rates_totals_and_when_it_will_be_done() -> None:
    """From what was seen in the last ten seconds; before a second look no rate is known."""
    view = TopView()
    first = drawn(view, look(0, topic("orders", copied=1000, lag_messages=5000, lag_seconds=3.0)))
    assert first[1] == "copied 1,000 · lag 5,000, 3.0 s · ETA -"
    second = drawn(view, look(4, topic("orders", copied=3000, lag_messages=4000, lag_seconds=2.5, gap_messages=7)))
    assert second[1] == "copied 3,000 · 500 msg/s · lag 4,000, 2.5 s · ETA 16 s"
    assert second[2] == "gaps 7"
    assert second[-1].split() == ["orders", "RUNNING", "4,000", "2.5", "500", "16", "s", "7"]
    for at in (8, 12, 16):
        last = drawn(view, look(at, topic("orders", copied=3000, lag_messages=4000, lag_seconds=2.5)))
    assert last[1] == "copied 3,000 · 0 msg/s · lag 4,000, 2.5 s · ETA -"


def test_rates_are_known_however_seldom_it_looks() -> None:
    """Two looks are kept, whatever lies between them, and no more that are too old."""
    view = TopView()
    for at, copied, rate in ((0, 0, ""), (15, 1500, " · 100 msg/s"), (30, 6000, " · 300 msg/s")):
        assert drawn(view, look(at, topic("orders", copied=copied)))[1] == f"copied {copied:,}{rate} · lag 0"


def test_a_look_that_failed_leaves_the_last_one() -> None:
    """With the time that it is of, and in the room that is left."""
    view = TopView()
    last = drawn(view, look(0, *(topic(f"t{number}") for number in range(30))))
    console = Console(file=StringIO(), width=80, height=24)
    console.print(view.draw_again("no replicator answers\nsay where one runs", clock="12:00:07", height=24))
    assert isinstance(console.file, StringIO)
    again = console.file.getvalue().splitlines()
    assert again[:3] == ["12:00:07 no replicator answers", "12:00:07 say where one runs", last[0]]
    assert again[2].endswith("12:00:00")
    assert len(again) <= 24
    assert again[-1].endswith("topics that are no worse")


def test_a_screen_of_80_by_24_is_enough() -> None:
    """The worst topics are shown, the others counted, and nothing wraps."""
    names = [f"a-topic-with-quite-a-long-name-that-goes-on-and-on-{number:03}" for number in range(100)]
    topics = [topic(name, lag_messages=number) for number, name in enumerate(names)]
    topics[5] = topic("broken", state="FAILED", severity=7)
    lines = drawn(TopView(), look(0, *topics))
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    heads = [number for number, line in enumerate(lines) if line.startswith("topic")]
    assert lines[heads[0] + 1].split()[:2] == ["broken", "FAILED"]
    assert lines[heads[0] + 2].split()[2] == "99"
    assert lines[-1] == f"… and {100 - (len(lines) - heads[0] - 2)} topics that are no worse"


def test_what_came_since_the_first_look_has_no_rate_yet() -> None:
    """A new topic is no jump of the rate."""
    view = TopView()
    drawn(view, look(0, topic("orders", copied=10)))
    lines = drawn(view, look(2, topic("orders", copied=20), topic("fresh", copied=1_000_000)))
    assert [line.split()[-2] for line in lines if line.startswith(("orders", "fresh"))] == ["-", "5"]
    assert "· 5 msg/s" in lines[1]
