"""One measured process: its CPU and memory, children included."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_POLL_SECONDS = 0.1
_TERM_SECONDS = 30.0
_TICKS = os.sysconf("SC_CLK_TCK")


class ContenderFailed(RuntimeError):
    """A measured process ended unexpectedly, or too late."""


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds (user and system), peak resident memory in bytes, and how it ended (negative: signal)."""

    cpu: float
    peak_rss: int
    exit_code: int


class Measured:
    """A running process; `await finished()` or `await stopped()` gives its cost.

    Args:
        helpers: processes that work for it without being its children; they and their children count for `cpu_by`
            and the peak of memory.
    """

    def __init__(
        self, command: Sequence[str], *, log: Path, environment: Mapping[str, str], helpers: Sequence[int] = ()
    ) -> None:
        self.started = time.time()
        self._helpers = list(helpers)
        self._helped_before = sum(map(_cpu, _families(self._helpers)))
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
            )
        self._peak = 0
        self._cpu: list[tuple[float, float]] = []
        # wait4 counts the process and every descendant that was waited for.
        self._end = asyncio.create_task(asyncio.to_thread(os.wait4, self._process.pid, 0))
        self._sampler = asyncio.create_task(self._sample())

    @property
    def running(self) -> bool:
        return not self._end.done()

    def cpu(self) -> float:
        """CPU seconds used so far by the process and those of its children that have ended."""
        return _cpu(self._process.pid)

    def cpu_by(self, moment: float) -> float:
        """CPU seconds of it and all its descendants until `moment` (seconds since the epoch), as last sampled."""
        # The highest sample: after a process ends that was not waited for, its CPU is not counted any more.
        return max((cpu for at, cpu in self._cpu if at <= moment), default=0.0)

    def memory(self) -> int:
        """Current resident bytes of it and all its descendants."""
        return sum(_memory(pid, "VmRSS") for pid in self._family())

    async def finished(self, *, seconds: float) -> Cost:
        """Its cost, after it has ended by itself."""
        done, _ = await asyncio.wait([self._end], timeout=seconds)
        if not done:
            await self.stopped()
            raise ContenderFailed(f"it did not end within {seconds:g} s; its output:\n{self.output()}")
        return await self._cost()

    async def stopped(self) -> Cost:
        """Its cost, after SIGTERM, or SIGKILL if SIGTERM does not end it."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self.running:
                break
            os.kill(self._process.pid, number)
            await asyncio.wait([self._end], timeout=_TERM_SECONDS)
        return await self._cost()

    def send(self, number: int) -> None:
        """Sends it a signal."""
        os.kill(self._process.pid, number)

    async def killed(self) -> None:
        """Ends it without its knowing."""
        os.kill(self._process.pid, signal.SIGKILL)
        await self._cost()

    def printed(self) -> list[str]:
        """All lines that it printed."""
        return self._log.read_text(encoding="utf-8", errors="replace").splitlines()

    def output(self) -> str:
        """The last lines of its output."""
        return "\n".join(self.printed()[-20:])

    async def _cost(self) -> Cost:
        _, status, usage = await self._end
        self._sampler.cancel()
        self._process.returncode = os.waitstatus_to_exitcode(status)
        return Cost(_seconds(usage), self._peak, self._process.returncode)

    async def _sample(self) -> None:
        # The kernel keeps each process's own peak, so the last sample before its end counts.
        while self.running:
            family = self._family()
            self._peak = max(self._peak, sum(_memory(pid, "VmHWM") for pid in family))
            self._cpu.append((time.time(), sum(map(_cpu, family)) - self._helped_before))
            await asyncio.sleep(_POLL_SECONDS)

    def _family(self) -> list[int]:
        return _families([self._process.pid, *self._helpers])


def _families(pids: Sequence[int]) -> list[int]:
    """These processes and all their descendants."""
    family, fresh = [], list(pids)
    while fresh:
        pid = fresh.pop()
        family.append(pid)
        fresh += _children(pid)
    return family


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, task.read_text(encoding="utf-8").split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _cpu(pid: int) -> float:
    """CPU seconds of a process and those of its children that it has waited for."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(map(int, text.rpartition(")")[2].split()[11:15])) / _TICKS


def _memory(pid: int, name: str) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    for line in text.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def _seconds(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime
