"""Brokers that store nothing, in compiled code (`null_broker.c`): the limit is then the program they serve."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from bench.process import ContenderFailed, Measured

_START_SECONDS = 10.0
_POLL_SECONDS = 0.05
_FLAGS = ("-O2", "-std=c11", "-Wall", "-Wextra", "-Werror")


def compiled(directory: Path) -> Path:
    """The program, compiled for this machine."""
    program = directory / "null_broker"
    source = Path(__file__).with_name("null_broker.c")
    command = [sys.executable, "-m", "ziglang", "cc", *_FLAGS, "-o", str(program), str(source)]
    subprocess.run(command, check=True)
    return program


class Held(NamedTuple):
    """Queues whose pulls wait for messages, and connections over which they came."""

    queues: int
    connections: int


class Stored(NamedTuple):
    """Messages that had come at `moment` (seconds since the epoch)."""

    messages: int
    moment: float


class NullBroker:
    """One that stands before the broker of one side.

    Args:
        before: what `bench.stage.Side.fronts` gives.
        prefix: topics that it takes for itself, by the beginning of their names.
        each: messages of each queue of the source.
        on: the command that pins it to some cores.
    """

    def __init__(
        self,
        program: Path,
        side: Literal["source", "target"],
        before: Iterable[tuple[str, str]],
        *,
        prefix: str,
        each: int,
        size: int,
        log: Path,
        on: Sequence[str] = (),
    ) -> None:
        pairs = [f"{listen}={upstream}" for listen, upstream in before]
        command = [*on, str(program), prefix, str(each), str(size), side, *pairs]
        self.process = Measured(command, log=log, environment=os.environ)
        self._ahead = time.time() - time.monotonic()

    async def ready(self) -> None:
        """Returns once it listens."""
        deadline = time.monotonic() + _START_SECONDS
        while "ready" not in self.process.printed():
            if not self.process.running or time.monotonic() > deadline:
                raise ContenderFailed(f"the null broker did not start:\n{self.process.output()}")
            await asyncio.sleep(_POLL_SECONDS)

    @property
    def held(self) -> Held:
        """At the source, now."""
        found = [line.split() for line in self.process.printed() if line.startswith("held ")]
        return Held(*map(int, found[-1][1:])) if found else Held(0, 0)

    @property
    def stored(self) -> list[Stored]:
        """At the target, ten times a second in which something came."""
        found = [line.split() for line in self.process.printed() if line.startswith("stored ")]
        return [Stored(int(count), float(moment) + self._ahead) for _, count, moment in found]

    def open(self) -> None:
        """The source has all of its messages from now on."""
        self.process.send(signal.SIGUSR1)
