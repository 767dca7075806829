"""One process of the sandbox: started in its own session, signalled only if the id is still its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from replicator.errors import SandboxError
from replicator.parent_guard import guarded

__all__ = ["EarlierProcess", "Process", "ProcessId"]

#: Seconds between two looks whether a process has ended: tests wait for many, and a look costs a read of /proc.
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A process id with its start time, since ids are reused."""

    pid: int
    started: int  # clock ticks after the boot, from /proc

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        return cls(pid=pid, started=_stat(pid)[1])

    def running(self) -> bool:
        state, started = _stat(self.pid)
        return started == self.started and state not in "ZX"

    def signal(self, number: signal.Signals) -> None:
        """Send `number`, unless the process has ended."""
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(self.pid)
            try:  # the descriptor refers to the process that was checked
                if self.running():
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)

    async def ended(self, *, seconds: float) -> bool:
        """Wait until it has ended; False if it is still running after `seconds`."""
        deadline = time.monotonic() + seconds
        while self.running():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True


class EarlierProcess:
    """One that another command has started; it is nobody's child any more."""

    def __init__(self, identity: ProcessId) -> None:
        self.id = identity

    def running(self) -> bool:
        return self.id.running()

    def signal(self, number: signal.Signals) -> None:
        self.id.signal(number)

    async def ended(self, *, seconds: float) -> bool:
        return await self.id.ended(seconds=seconds)


class Process:
    """A child of ours. Unless `detached`, the kernel kills it when the thread that started it ends."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        directory: Path,
        log: Path,
        environment: Mapping[str, str],
        descriptor: int,
        detached: bool,
    ) -> None:
        wrapper = [] if detached else guarded(signal.SIGKILL)
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                [*wrapper, *command],
                cwd=directory,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[descriptor],  # the lock of its ports
                start_new_session=True,  # a Ctrl-C in the terminal must not reach it
            )
        self.id = ProcessId.of(self._child.pid)

    def running(self) -> bool:
        return self._child.poll() is None

    def signal(self, number: signal.Signals) -> None:
        if self.running():  # not reaped yet, so the id is still its own
            self._child.send_signal(number)

    async def ended(self, *, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.running():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    def exit_code(self) -> int | None:
        return self._child.poll()


def _stat(pid: int) -> tuple[str, int]:
    """State and start time of `pid`; a start time of -1 when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return "X", -1
    except OSError as error:
        raise SandboxError(f"/proc/{pid}/stat cannot be read ({error})") from error
    fields = text.rpartition(")")[2].split()  # the program's name before it may contain anything
    return fields[0], int(fields[19])
