"""Runs worlds by their seeds, each in a process of its own, several at once."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

from replicator.client import send_queue
from tests.simulation import clocks
from tests.simulation.judge import Judge, Violation
from tests.simulation.mutants import MUTANTS
from tests.simulation.nemesis import Nemesis
from tests.simulation.network import SimSocket
from tests.simulation.world import SimWorld

__all__ = ["Outcome", "run_all", "run_seed"]

#: Seconds of virtual time with faults, and until all must be settled after them.
_FAULTS, _SETTLES = 20.0, 90.0
#: Seconds in which nothing happens then.
_RESTS = 8.0
_SHOWN = 60


class Outcome(NamedTuple):
    """What came of a seed; `violation` is empty where all was as it must be, `digest` the same for the same run."""

    seed: int
    violation: str
    history: list[str]
    digest: str
    seconds: float
    virtual: float
    produced: int


def run_seed(seed: int, *, mutant: str = "", debug: bool = False) -> Outcome:
    """Runs one world. It changes the clocks of this process for good."""
    gc.disable()  # or what killed processes have left would be cleaned up at some moment
    began = time.perf_counter()
    real = time.perf_counter
    shared = Path("/dev/shm")
    directory = Path(tempfile.mkdtemp(prefix="simulation-", dir=shared if shared.is_dir() else None))
    world = SimWorld(seed, directory)
    clocks.take_over(world.kernel)
    send_queue.unacknowledged = lambda sock: 0 if sock is None else cast("SimSocket", sock).unacknowledged
    world.history.capture(debug=debug)
    if mutant:
        MUTANTS[mutant].apply()
    violation = ""
    try:
        _live(world)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong here is what is looked for
        known = isinstance(error, Violation)
        violation = f"{error}" if known else "".join(traceback.format_exception(error)[-8:])
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    lines = world.history.lines(_SHOWN if not debug else 10**6) if violation or debug else []
    return Outcome(seed, violation, lines, world.history.digest(), real() - began, world.kernel.now, world.produced)


def _live(world: SimWorld) -> None:
    judge = Judge(world)
    nemesis = Nemesis(world, judge)
    world.start()
    nemesis.run()
    world.kernel.run(seconds=_FAULTS)
    nemesis.heal()
    world.history.add("nemesis", "heals everything")
    world.kernel.run(seconds=1.0)
    world.producing = False
    waited = 0.0
    while not judge.settled():
        world.kernel.run(seconds=0.5)
        waited += 0.5
        if waited > _SETTLES:
            raise Violation(f"not settled {_SETTLES:g} s after all faults: {judge.unsettled()}")
    judge.rest()
    world.kernel.run(seconds=_RESTS)  # what is stored late comes in this time, and the watches see it
    judge.verdict()


def run_all(seeds: Iterable[int], *, mutant: str = "") -> Iterator[Outcome]:
    """The outcomes of all seeds, in their order."""
    context = multiprocessing.get_context("fork")
    with context.Pool(os.cpu_count() or 1, maxtasksperchild=1) as pool:
        yield from pool.imap(partial(run_seed, mutant=mutant), seeds)
