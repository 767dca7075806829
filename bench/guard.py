"""Whether ours has become slower: how often it is better than what runs beside it, compared with what is kept.

Figures of one machine and hour say nothing of another; ratios of contenders that take turns in one run nearly do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from bench.contender import Forward, Relay, Replicator
from bench.figures import Spread
from bench.latency import Latency
from bench.relaying import Round
from bench.report import Results
from bench.thin import Thin

__all__ = ["KEPT", "TOLERANCE", "compared", "keep", "ratios", "read"]

#: The ratios of the last run that was kept.
KEPT: Final = Path(__file__).parent / "ratios.json"
#: The part of a ratio by which it may be smaller: what short runs on one machine differ by.
TOLERANCE: Final = 0.25

M = TypeVar("M", Round, Latency, Thin)


def ratios(results: Results) -> dict[str, float]:
    """How often ours is better than the other contender, by what was measured; above 1: it is better."""
    found: dict[str, float] = {}
    for scenario, size in sorted({(each.scenario, each.size) for each in results.rounds}):
        rounds = [each for each in results.rounds if (each.scenario, each.size) == (scenario, size)]
        name = f"{scenario}, {size:,} B"
        found |= _better(f"{name}: messages a second", rounds, Relay.name, lambda each: each.seconds)
        found |= _better(f"{name}: CPU a message", rounds, Relay.name, lambda each: each.cost.cpu)
    found |= _better("live latency, p50", results.latencies, Relay.name, lambda each: max(each.p50, 1.0))
    for queues, rate in sorted({(each.queues, each.rate) for each in results.thin}):
        turns = [each for each in results.thin if (each.queues, each.rate) == (queues, rate)]
        name = f"thin, {queues:,} queues, {rate:,} messages a second"
        found |= _better(f"{name}: CPU a message", turns, Forward.name, lambda each: each.cpu)
    return found


def _better(name: str, several: Sequence[M], other: str, cost: Callable[[M], float]) -> dict[str, float]:
    """By which factor the median of the other is more than that of ours, if both were measured."""
    ours, theirs = ([cost(each) for each in several if each.contender == who] for who in (Replicator.name, other))
    if not ours or not theirs:
        return {}
    return {f"{name}, beside {other}": round(Spread.of(theirs).median / Spread.of(ours).median, 2)}


def compared(now: Mapping[str, float], kept: Mapping[str, float]) -> tuple[list[str], list[str]]:
    """A line for each ratio of this run, and the names of those that fell."""
    lines, fell = [], []
    for name, ratio in now.items():
        before = kept.get(name)
        if before is None:
            lines.append(f"{name}: {ratio:.2f}, not kept yet")
            continue
        is_less = ratio < before * (1 - TOLERANCE)
        fell += [name] * is_less
        change = (ratio / before - 1) * 100
        lines.append(f"{name}: {ratio:.2f}, kept {before:.2f} ({change:+.0f} %){' FELL' if is_less else ''}")
    return lines, fell


def read() -> dict[str, float]:
    """What is kept; nothing where nothing is."""
    return dict(json.loads(KEPT.read_text(encoding="utf-8"))) if KEPT.exists() else {}


def keep(now: Mapping[str, float]) -> None:
    """Keeps the ratios of a run, beside those kept of other parts."""
    KEPT.write_text(json.dumps(read() | dict(now), indent=1, sort_keys=True) + "\n", encoding="utf-8")
