"""The command: which parts to run, at which scale, and where to write the page."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import guard
from bench.bulk import bulk_rounds
from bench.contender import Contender, Fill, Floor, Forward, Relay, Replicator, Scraped
from bench.cores import cores
from bench.group import group_costs
from bench.idle import idle_costs
from bench.latency import latencies
from bench.machine import Machine
from bench.masters import DEFAULT, STANDALONE
from bench.process import ContenderFailed
from bench.relaying import Scale, relay_rounds
from bench.report import Results, render
from bench.stage import SCENARIOS
from bench.starts import start_times
from bench.thin import Load, thin_rounds
from replicator.errors import ReplicatorError

PARTS = (*SCENARIOS, "latency", "thin", "starts", "idle", "group", "cores", "bulk", "history")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run."""

    parts: Sequence[str]
    contenders: Sequence[Contender]
    scale: Scale
    latency_seconds: float
    idle_seconds: float
    idle_queues: Sequence[int]
    group_queues: Sequence[int]
    thin: Sequence[Load]
    cores_messages: int
    masters: Sequence[str]


async def run(plan: Plan, results: Results, *, directory: Path, save: Callable[[], None]) -> None:
    """Runs part after part and saves after each, so that a failure keeps the earlier results."""
    rounds = plan.scale.rounds
    movers = [contender for contender in plan.contenders if contender.name in (Replicator.name, Relay.name)]
    for part in plan.parts:
        results.loads[part] = os.getloadavg()[0]
        say(f"{part}: load average {results.loads[part]:.2f}")
        place = directory / part
        if part in SCENARIOS:
            # The ceiling needs no source, and a delay would be measured instead of the target; the cost of scrapes
            # shows best without other delays.
            others = (Fill.name, Scraped.name) if part == "loopback" else ()
            present = [each for each in plan.contenders if each in movers or each.name in others]
            results.rounds += await relay_rounds(
                SCENARIOS[part], present, scale=plan.scale, directory=place, say=say
            )
        elif part == "latency":
            results.latencies += await latencies(movers, seconds=plan.latency_seconds, directory=place)
        elif part == "thin":
            present = [each for each in plan.contenders if each.name in (Replicator.name, Forward.name, Floor.name)]
            await thin_rounds(present, plan.thin, rounds=rounds, directory=place, say=say, found=results.thin)
        elif part in ("bulk", "history"):
            results.bulk += await bulk_rounds(
                movers, plan.masters, history=part == "history", scale=plan.scale, directory=place, say=say
            )
        else:
            ours = [each for each in movers if isinstance(each, Replicator)]
            at: dict[str, Any] = {"seconds": plan.idle_seconds, "directory": place, "say": say}
            for contender in ours:
                if part == "starts":
                    results.starts += await start_times(contender, rounds=rounds, directory=place, say=say)
                elif part == "cores":
                    counts = {"messages": plan.cores_messages, "rounds": rounds}
                    results.cores += await cores(contender, **counts, directory=place, say=say)
                elif part == "idle":
                    results.idle += await idle_costs(contender, queues=plan.idle_queues, **at)
                else:
                    results.group += await group_costs(contender, queues=plan.group_queues, rounds=rounds, **at)
        save()
        shutil.rmtree(place, ignore_errors=True)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def contenders(program: str) -> dict[str, Contender]:
    """By the names that users choose them with."""
    return {
        "replicator": Replicator.named(program),
        "scraped": Scraped.named(program),
        "relay": Relay(),
        "ceiling": Fill(),
        "forwarder": Forward(),
        "floor": Floor(),
    }


def plan_of(options: argparse.Namespace) -> Plan:
    known = contenders(options.replicator)
    quick = options.quick
    return Plan(
        parts=_chosen(options.only, PARTS),
        contenders=[known[name] for name in _chosen(options.contenders, list(known))],
        scale=Scale(
            messages=options.messages or (20_000 if quick else 500_000),
            sizes=[int(size) for size in options.sizes.split(",")],
            rounds=options.rounds or (1 if quick else 3),
            limit=120 if quick else 600,
        ),
        latency_seconds=5 if quick else 60,
        idle_seconds=5 if quick else 60,
        idle_queues=[80] if quick else [80, 1_000, 10_000],
        group_queues=[1_000] if quick else [2_000, 10_000, 20_000],
        thin=[
            Load(queues=queues, rate=rate, seconds=5 if quick else 20, warm_seconds=5 if quick else 10)
            for queues in ([64] if quick else map(int, options.queues.split(",")))
            for rate in ([500] if quick else map(int, options.rates.split(",")))
        ],
        cores_messages=400_000 if quick else 8_000_000,
        masters=options.masters.split(";"),
    )


def _chosen(text: str, known: Sequence[str]) -> list[str]:
    if not text:
        return list(known)
    wanted = text.split(",")
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; choose from {', '.join(known)}")
    return wanted


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure side by side.")
    parser.add_argument("--quick", action="store_true", help="a small run, compared with the ratios that are kept")
    parser.add_argument("--keep", action="store_true", help="keep the ratios of this run (with --quick)")
    parser.add_argument("--only", default="", metavar="PART,…", help=f"of {', '.join(PARTS)}")
    parser.add_argument(
        "--contenders",
        default="",
        metavar="NAME,…",
        help="of replicator, scraped, relay, ceiling, forwarder, floor",
    )
    parser.add_argument("--messages", type=int, help="in the full topic (500,000)")
    parser.add_argument("--sizes", default="1024,200", metavar="BYTES,…", help="of bodies (1024,200)")
    queues = "512,4000,10000"
    parser.add_argument("--queues", default=queues, metavar="N,…", help=f"of topics with thin traffic ({queues})")
    rates = "500,2000,10000"
    parser.add_argument(
        "--rates", default=rates, metavar="N,…", help=f"of thin traffic, messages a second ({rates})"
    )
    parser.add_argument("--rounds", type=int, help="of each contender (3)")
    parser.add_argument("--replicator", default="", metavar="COMMAND", help="instead of the installed one")
    parser.add_argument(
        "--masters",
        default=";".join(DEFAULT),
        metavar="MASTER;…",
        help=f"Spark's, each of which backfills; {STANDALONE}: two workers of our own ({';'.join(DEFAULT)})",
    )
    parser.add_argument("--output", type=Path, help="where the page goes (standard output)")
    parser.add_argument("--directory", type=Path, help="for stores and logs; needs some 10 GB (temporary)")
    options = parser.parse_args()
    plan = plan_of(options)
    results = Results(machine=Machine.look(), command=" ".join(["python -m bench", *sys.argv[1:]]))

    def save() -> None:
        if options.output:
            options.output.write_text(render(results), encoding="utf-8")

    directory = Path(tempfile.mkdtemp(prefix="bench-", dir=options.directory))
    try:
        asyncio.run(run(plan, results, directory=directory, save=save))
    except (ContenderFailed, ReplicatorError) as error:
        save()
        raise SystemExit(f"{error}\nfiles: {directory}") from None
    shutil.rmtree(directory, ignore_errors=True)
    if not options.output:
        print(render(results), end="")
    if options.quick:
        sys.exit(_guard(results, keep=options.keep))


def _guard(results: Results, *, keep: bool) -> int:
    """Says which ratios fell; 1 if any did."""
    now = guard.ratios(results)
    if keep:
        guard.keep(now)
    lines, fell = guard.compared(now, guard.read())
    say("\n".join(["", "How often ours is better, beside what was kept:", *(f"- {line}" for line in lines)]))
    return bool(fell)


if __name__ == "__main__":
    main()
