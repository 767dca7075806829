"""`python -m tests.simulation`: runs seeds, or shows which mutants they find."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from tests.simulation.mutants import MUTANTS
from tests.simulation.run import run_all, run_seed


def main() -> int:
    """0 where nothing was found, or with --mutants each mutant; else 1."""
    # Sets of texts are gone through in an order that this decides; the same seed is to be the same run.
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            os.environ | {"PYTHONHASHSEED": "0"},
        )
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=1000, help="how many worlds")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seed", type=int, help="this one alone, with its whole history")
    parser.add_argument("--mutant", default="", choices=["", *MUTANTS], help="an error to make in the code before")
    parser.add_argument("--mutants", action="store_true", help="each mutant, or --mutant alone, until found")
    asked = parser.parse_args()
    if asked.seed is not None:
        return _one(asked.seed, asked.mutant)
    seeds = range(asked.first, asked.first + asked.seeds)
    if asked.mutants:
        return _mutants([asked.mutant] if asked.mutant else list(MUTANTS), seeds)
    return _many(seeds, asked.mutant)


def _one(seed: int, mutant: str) -> int:
    outcome = run_seed(seed, mutant=mutant, debug=bool(os.environ.get("DEBUG")))
    print("\n".join(outcome.history))
    print(outcome.violation or "nothing found")
    took = f"{outcome.virtual:.0f} s in {outcome.seconds:.2f} s"
    print(f"seed {seed}: {took}, {outcome.produced} messages, run {outcome.digest}")
    return bool(outcome.violation)


def _many(seeds: range, mutant: str) -> int:
    began, failed, virtual, messages = time.perf_counter(), 0, 0.0, 0
    for outcome in run_all(seeds, mutant=mutant):
        virtual, messages = virtual + outcome.virtual, messages + outcome.produced
        if outcome.violation:
            failed += 1
            again = f"make simulate SEED={outcome.seed}"
            print(
                "\n".join(
                    [*outcome.history[-25:], f"seed {outcome.seed}: {outcome.violation}", f"again: {again}", ""]
                )
            )
    seconds = time.perf_counter() - began
    print(
        f"{len(seeds)} worlds, {failed} failed: {virtual / 3600:.1f} h of virtual time and {messages} messages"
        f" in {seconds:.0f} s, {len(seeds) / seconds * 3600:.0f} worlds an hour"
    )
    return bool(failed)


def _mutants(names: Sequence[str], seeds: range) -> int:
    missed = 0
    print("| mutant | what | found | by seed | after |\n|---|---|---|---|---|")
    for name in names:
        began, found = time.perf_counter(), None
        for outcome in run_all(seeds, mutant=name):
            if outcome.violation:
                found = outcome
                break
        seconds = time.perf_counter() - began
        missed += found is None
        row = ("no", "-") if found is None else ("yes", str(found.seed))
        print(f"| {name} | {MUTANTS[name].what} | {row[0]} | {row[1]} | {seconds:.1f} s |", flush=True)
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
