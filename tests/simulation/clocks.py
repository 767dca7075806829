"""Every clock and every chance that code reads by itself, taken from the simulated world.

A simulation has a process of its own, so that this may hold for all of it: `time` and `uuid` are those of the
simulated process whose event is being handled, and `random` goes by the seed.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from typing import Any

from tests.simulation.kernel import EPOCH, Kernel

__all__ = ["take_over"]


def take_over(kernel: Kernel) -> None:
    """For the rest of this process."""

    def monotonic() -> float:
        return kernel.now if kernel.current is None else kernel.current.monotonic()

    def wall() -> float:
        return EPOCH + kernel.now if kernel.current is None else kernel.current.wall()

    def boottime(_: int) -> float:
        return monotonic()

    replaced: dict[str, Callable[..., Any]] = {
        "time": wall,
        "time_ns": lambda: int(wall() * 1e9),
        "monotonic": monotonic,
        "monotonic_ns": lambda: int(monotonic() * 1e9),
        "perf_counter": monotonic,
        "clock_gettime": boottime,
        "thread_time": lambda: 0.0,  # code takes no time here
        "process_time": lambda: 0.0,
    }
    for name, clock in replaced.items():
        setattr(time, name, clock)
    random.seed(kernel.random.random())
    chance = random.Random(kernel.random.random())
    uuid.uuid4 = lambda: uuid.UUID(int=chance.getrandbits(128), version=4)
