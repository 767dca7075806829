"""`replicator top`: one screen, the worst first, with rates and what is left to do."""

from __future__ import annotations

import time
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from replicator.operate.workers.top_view import Snapshot, TopView


def worker(name: str, **values: Any) -> dict[str, Any]:
    known = {
        "worker_id": name,
        "address": "127.0.0.1:8082",
        "version": "0.1.0",
        "state": "ONLINE",
        "tasks": 3,
        "leader": True,
        "takes_tasks": True,
        "waiting_for": "",
    }
    return {**known, **values}


CLUSTER = {"source": "east", "target": "west", "workers": [worker("w1")]}


def topic(name: str, **values: Any) -> dict[str, Any]:
    zeros = (
        *("stalled", "copied", "lag_messages", "gap_messages", "target_lost", "duplicates", "foreign", "skipped"),
        "audit_differences",
    )
    known = dict.fromkeys(zeros, 0) | {"topic": name, "state": "RUNNING", "severity": 2, "lag_seconds": 0.0}
    return {**known, **values}


def look(
    at: float, *topics: dict[str, Any], connector: str = "route", state: str = "RUNNING", **cluster: Any
) -> Snapshot:
    status = {"connector": {"state": state}, "topics": list(topics)}
    return Snapshot(at, CLUSTER | cluster, {connector: {"status": status}})


def drawn(view: TopView, seen: Snapshot, *, width: int = 80, height: int | None = 24) -> list[str]:
    console = Console(file=StringIO(), width=width, height=height or 24)
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
    assert second[-1].split() == ["orders", "RUNNING", "4,000", "2.5", "500", "16", "s", "7", "0"]
    for at in (8, 12, 16):
        last = drawn(view, look(at, topic("orders", copied=3000, lag_messages=4000, lag_seconds=2.5)))
    assert last[1] == "copied 3,000 · 0 msg/s · lag 4,000, 2.5 s · ETA -"


def test_a_paused_connector_copies_nothing_and_a_resumed_one_has_the_rate_of_now() -> None:
    """What it copied before says nothing of either."""
    view = TopView()
    drawn(view, look(0, topic("orders", copied=0, lag_messages=9000)))
    drawn(view, look(2, topic("orders", copied=2000, lag_messages=7000)))
    paused = drawn(view, look(4, topic("orders", copied=2400, lag_messages=6600), state="PAUSED"))
    assert paused[1] == "copied 2,400 · 0 msg/s · lag 6,600, 0.0 s · ETA -"
    first = drawn(view, look(6, topic("orders", copied=2400, lag_messages=6600)))
    assert first[1] == "copied 2,400 · lag 6,600, 0.0 s · ETA -"
    resumed = drawn(view, look(8, topic("orders", copied=4400, lag_messages=4600)))
    assert resumed[1] == "copied 4,400 · 1,000 msg/s · lag 4,600, 0.0 s · ETA 5 s"


def test_what_the_target_has_lost_is_no_gap() -> None:
    """It is copied again, and what is missing at the source is not."""
    lines = drawn(TopView(), look(0, topic("orders", gap_messages=0, target_lost=3420)))
    assert lines[2] == "lost at the target 3,420"
    heads = next(line.split() for line in lines if line.startswith("topic"))
    assert heads[-2:] == ["gaps", "lost"]
    assert lines[-1].split()[-2:] == ["0", "3,420"]


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
    console.print(view.draw_again("no worker answers\nsay where one runs", clock="12:00:07", height=24))
    assert isinstance(console.file, StringIO)
    again = console.file.getvalue().splitlines()
    assert again[:3] == ["12:00:07 no worker answers", "12:00:07 say where one runs", last[0]]
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


def test_a_worker_is_one_line_however_long_its_names_are() -> None:
    """The lines below have room then; whose id it is stays readable, and so does what is odd about it."""
    ids = [f"rmq-replicator-{number}-3fa9c1d{number}" for number in range(4)]
    workers = [
        worker(ids[0], address="replicator-0.replicator.messaging.svc.cluster.local:8082"),
        worker(ids[1], leader=False, address="10.20.130.140:8082"),
        worker(ids[2], leader=False, takes_tasks=False, state="missing"),
        worker(ids[3], leader=False, waiting_for="worker rmq-replicator-0-3fa9c1d0 and its backfill of all topics"),
    ]
    seen = look(0, *(topic(f"t{number}") for number in range(40)), workers=workers)
    lines = drawn(TopView(), seen)
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    rows = {line.split()[0]: line.rstrip() for line in lines if line.startswith("rmq")}
    assert list(rows) == ids
    assert rows[ids[0]].endswith("leader")
    assert "10.20.130.140:8082" in rows[ids[1]]
    assert rows[ids[2]].endswith("takes no tasks")
    assert "waits for" in rows[ids[3]]
    assert lines[-1] == "… and 28 topics that are no worse"


def test_without_a_screen_everything_is_there() -> None:
    """Each topic in a line, with its whole name, and numbers as programs read them."""
    names = [f"a-topic-with-quite-a-long-name-that-goes-on-and-on-{number:03}" for number in range(100)]
    seen = look(0, *(topic(name, lag_messages=4702, copied=1000) for name in names))
    lines = drawn(TopView(comma=""), seen, width=10_000, height=None)
    assert [line.split()[0] for line in lines[-100:]] == names
    assert all("4702" in line.split() for line in lines[-100:])
    assert lines[1].startswith("copied 100000 · lag 470200")
    assert max(map(len, lines)) < 300
    assert "…" not in "".join(lines)


def test_what_came_since_the_first_look_has_no_rate_yet() -> None:
    """A new topic is not a jump of the rate."""
    view = TopView()
    drawn(view, look(0, topic("orders", copied=10)))
    lines = drawn(view, look(2, topic("orders", copied=20), topic("fresh", copied=1_000_000)))
    assert [line.split()[-3] for line in lines if line.startswith(("orders", "fresh"))] == ["-", "5"]
    assert "· 5 msg/s" in lines[1]


@pytest.mark.parametrize("height", [24, None])
def test_without_its_source_nothing_is_called_well(height: int | None) -> None:
    seen = look(0, workers=[worker("w1")])
    seen.connectors["route"]["status"].update(source_away="a:1 cannot be reached", source_seen_at=time.time() - 30)
    text = "\n".join(drawn(TopView(), seen, width=200, height=height))
    assert "lag not known" in text
    assert (
        "the source cannot be reached, so the lag is not known: a:1 cannot be reached; it was last reached" in text
    )
    assert "lag 0" not in text
    assert "copied 0" not in text
    assert "no gaps" not in text
    assert ("source away" in text) == (height is None)
