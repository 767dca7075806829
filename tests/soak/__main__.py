"""`make soak SEED=n MINUTES=m`: rounds of faults on real processes, each judged; files are kept where one fails.

A round has its own clusters and workers. Faults come for two minutes, then all is healed, everything must settle,
and nothing may be lost, repeated, out of order or wrong. The same seed gives the same faults at the same moments.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.soak.consumers import watched
from tests.soak.failover import fail_over
from tests.soak.history import History
from tests.soak.mutated import MUTANTS
from tests.soak.nemesis import Nemesis
from tests.soak.schedule import plan
from tests.soak.stage import loaded, staged
from tests.soak.verdict import findings, settled

#: Of a round, in which faults begin.
FAULTS: Final = 120.0


#: How workers are started.
PROGRAM: Final = ("-m", "replicator")


async def play(seed: str, directory: Path, seconds: float, program: tuple[str, ...] = PROGRAM) -> list[str]:
    """One round; what was found."""
    planned = plan(seed, seconds)
    found: list[str] = []
    with History(directory / "history.jsonl") as history:
        history.add("round", seed=seed, world=planned.world, versions=planned.versions)
        async with staged(planned, directory, history, program) as stage:
            nemesis = Nemesis(stage, history)
            took = 0.0
            try:
                async with loaded(stage, history, seed), watched(stage, history):
                    await nemesis.run(planned)
                    await nemesis.heal()
                    history.add("healed", fault="all")
                    await asyncio.sleep(2)
                took = await settled(stage)
                history.add("settled", seconds=took)
                found = await findings(stage, history) or await fail_over(stage, history, seed)
            except* (TimeoutError, AssertionError) as errors:
                found = [*_reasons(errors)]
                for worker in stage.workers:
                    with contextlib.suppress(TimeoutError):
                        await worker.stacks()
            sent = sum(len(each["numbers"]) for each in history.of("sent"))
            struck, seen = (sum(1 for _ in history.of(what)) for what in ("fault", "resumes at"))
            world = f"{planned.world} {' → '.join(planned.versions)}"
            state = "FOUND" if found else f"settled in {took:.0f} s"
            print(
                f"{seed:>10}  {world:26} {struck:3} faults, {sent:6} messages, {seen:4} offsets: {state}",
                flush=True,
            )
    return found


def _reasons(error: BaseException) -> Iterator[str]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _reasons(each)
    else:
        yield f"{type(error).__name__}: {error}"[:2000]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default=str(int(time.time())))
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument(
        "--keep", type=Path, default=Path(tempfile.gettempdir()), help="where files of failures stay"
    )
    parser.add_argument("--mutant", choices=MUTANTS, help="start workers that have this error")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or the workers of a round would outlive it
    program = ("-m", "tests.soak.mutated", options.mutant) if options.mutant else PROGRAM
    ends = time.monotonic() + options.minutes * 60
    turn = failures = 0
    while turn == 0 or time.monotonic() < ends:
        seed = options.seed if "/" in options.seed else f"{options.seed}/{turn}"
        directory = Path(tempfile.mkdtemp(prefix="soak-", dir=options.keep))
        try:
            found = asyncio.run(play(seed, directory, FAULTS, program))
        except Exception as error:  # noqa: BLE001 - the rounds behind it are played all the same
            found = [*_reasons(error)]
            print(f"{seed:>10}  could not be played", flush=True)
        if found:
            failures += 1
            print(*found, f"files, logs and history: {directory}", sep="\n")
            print(f"again: make soak SEED={seed} MINUTES=0", flush=True)
        else:
            shutil.rmtree(directory, ignore_errors=True)
        turn += 1
    print(f"{turn} rounds, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
