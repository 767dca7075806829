"""`make fuzz`: coverage-guided fuzzing of each target, random fuzzing of the compiled code, and fuzzing of REST.

    python -m tests.fuzz [--seconds N] [NAME …]     # each for N seconds
    python -m tests.fuzz NAME --input FILE          # one input again

Inputs that were of use stay in .fuzz/NAME and are where the next run begins; those that break a promise are beside
them as crash-…, timeout-… or oom-….
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
CORPUS = ROOT / ".fuzz"
#: What is compiled with sanitizers: the compiled code, and a program that calls it with mutated messages.
C_SOURCES = (ROOT / "tests/fuzz/uniform_run_fuzz.c", ROOT / "replicator/protocol/uniform_run.c")
#: Of one input: what takes longer than so many seconds, or more MB, is found, too.
LIMITS = ("-timeout=10", "-rss_limit_mb=1024", "-max_len=65536")


def fuzz(name: str, seconds: int) -> None:
    """In this process, which libFuzzer ends."""
    import atheris  # only the process of a target has it

    with atheris.instrument_imports(include=["replicator", "acl_sync"]):
        from tests.fuzz.targets import TARGETS
    target = TARGETS[name]
    corpus = CORPUS / name
    for seed in target.seeds:
        (corpus / hashlib.sha1(seed, usedforsecurity=False).hexdigest()).write_bytes(seed)
    limits = (*LIMITS, f"-max_total_time={seconds}", f"-artifact_prefix={corpus}/", "-verbosity=0")
    atheris.Setup([sys.argv[0], str(corpus), *limits, "-print_final_stats=1"], target.run)
    atheris.Fuzz()


def compiled(directory: Path) -> Path:
    """The program that feeds the compiled code with random mutations, built with sanitizers."""
    program = directory / "uniform_run_fuzz"
    flags = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-std=c11")
    subprocess.run(["gcc", *flags, "-o", str(program), *map(str, C_SOURCES)], check=True)
    return program


def found_for(name: str) -> list[str]:
    """The inputs of another target that were of use to it."""
    return [str(path) for path in sorted((CORPUS / name).glob("*"))]


def run(name: str, seconds: int) -> bool:
    """Whether nothing was found."""
    corpus = CORPUS / name
    corpus.mkdir(parents=True, exist_ok=True)
    if name == "rest":
        from tests.fuzz.rest import fuzz_rest

        good, said = asyncio.run(fuzz_rest(seconds, corpus))
        return tell(name, "all kinds of", seconds, [] if good else said.splitlines())
    if name == "compiled":
        if shutil.which("gcc") is None:
            print("compiled         left out: there is no gcc with its sanitizers")
            return True
        command = [str(compiled(corpus)), str(seconds), *found_for("messages")]
    else:
        command = [sys.executable, "-m", "tests.fuzz", "--one", name, "--seconds", str(seconds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    units = [line.split(":")[-1].strip() for line in done.stderr.splitlines() if "number_of_executed_units" in line]
    count = units[0] if units else (done.stdout.split() or ["?"])[0]
    if done.returncode == 0:
        return tell(name, count, seconds, [])
    lines = [line for line in done.stderr.splitlines() if not line.startswith(("INFO", "WARNING"))]
    return tell(name, count, seconds, [*lines[-40:], *(str(path) for path in sorted(corpus.glob("*-*")))])


def tell(name: str, count: str, seconds: int, found: Sequence[str]) -> bool:
    """Prints what came of a target; whether nothing was found."""
    print(f"{name:16} {count:>12} inputs in {seconds} s: {'FOUND' if found else 'nothing found'}", flush=True)
    for line in found:
        print(f"    {line}")
    return not found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--input", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        fuzz(options.one, options.seconds)
    from tests.fuzz.targets import TARGETS  # not before it can be instrumented

    known = [*TARGETS, "compiled", "rest"]
    if unknown := {*options.names} - {*known}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if options.input:
        for name in options.names:
            TARGETS[name].run(options.input.read_bytes())
        return 0
    good = [run(name, options.seconds) for name in options.names or known]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
