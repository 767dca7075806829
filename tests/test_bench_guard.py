"""What fell since the ratios were kept, and what did not."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import guard
from bench.contender import Forward, Relay, Replicator
from bench.latency import Latency
from bench.machine import Machine
from bench.process import Cost
from bench.relaying import Round
from bench.report import Results
from bench.thin import Thin


def measured() -> Results:
    """Two rounds of each in one scenario, one of the others."""
    results = Results(machine=Machine.look(), command="")
    for name, seconds, cpu in ((Replicator.name, (1.0, 3.0, 2.0), 4.0), (Relay.name, (6.0, 6.0, 6.0), 10.0)):
        results.rounds += [
            Round(
                scenario="loopback",
                contender=name,
                size=1024,
                messages=100,
                seconds=each,
                moving=each,
                cost=Cost(cpu, 1, 0),
            )
            for each in seconds
        ]
    results.latencies += [
        Latency(contender=Relay.name, messages=9, p50=4.0, p99=9.0, highest=9.0, cpu_share=0.1),
    ]
    results.thin += [
        Thin(contender=name, queues=64, rate=500, p50=1, p99=2, cpu=cpu, rss=1)
        for name, cpu in ((Replicator.name, 300.0), (Forward.name, 900.0))
    ]
    return results


def test_how_often_ours_is_better() -> None:
    """By medians, and only where both were measured."""
    assert guard.ratios(measured()) == {
        "loopback, 1,024 B: messages a second, beside java-relay": 3.0,
        "loopback, 1,024 B: CPU a message, beside java-relay": 2.5,
        f"thin, 64 queues, 500 messages a second: CPU a message, beside {Forward.name}": 3.0,
    }


def test_what_fell_is_said() -> None:
    """Beyond what short runs differ by; what is better, or new, did not."""
    lines, fell = guard.compared(
        {"a": 2.3, "b": 2.2, "c": 9.0, "new": 1.0}, {"a": 3.0, "b": 3.0, "c": 3.0, "gone": 1}
    )
    assert fell == ["b"]
    assert lines == [
        "a: 2.30, kept 3.00 (-23 %)",
        "b: 2.20, kept 3.00 (-27 %) FELL",
        "c: 9.00, kept 3.00 (+200 %)",
        "new: 1.00, not kept yet",
    ]


def test_other_parts_stay_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(guard, "KEPT", tmp_path / "ratios.json")
    assert guard.read() == {}
    guard.keep({"a": 1.0, "b": 2.0})
    guard.keep({"b": 3.0})
    assert guard.read() == {"a": 1.0, "b": 3.0}
