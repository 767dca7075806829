"""`--workers N`: worker processes on one machine, which share the work as workers on several machines do.

The process that is started copies nothing. It starts the others, passes signals on to them, starts again what has
ended or stands still, and speaks to systemd for all. Each has a state directory, a REST port and, where one was
given, an id of its own.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from replicator import systemd
from replicator.aio.backoff import Backoff
from replicator.exit_codes import ExitCode
from replicator.observe.logging import PROCESS, configure, get_logger
from replicator.settings import Settings
from replicator.stop_signals import StopSignals

__all__ = ["WorkerProcesses", "own_flags", "run"]

#: Seconds until a process that has ended is started again.
_FIRST: Final = 1.0
_MOST: Final = 30.0
#: Seconds without a sign of life after which one that was ready is killed; a sign comes every second.
_SILENT: Final = 30.0
_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h

log = get_logger(__name__)


def run(settings: Settings) -> int:
    """Runs `settings.workers` processes until they are asked to stop; the highest of their exit codes."""
    configure(level=settings.log_level)
    given = [sys.executable, "-m", "replicator", *sys.argv[1:]]
    commands = [[*given, *own_flags(settings, number)] for number in range(1, settings.workers + 1)]
    return asyncio.run(WorkerProcesses(commands).run())


def own_flags(settings: Settings, number: int) -> list[str]:
    """What process `number`, counted from 1, has to itself; given last, these flags count."""
    path, port, name = settings.store_path, settings.rest.port, settings.worker_id
    return [
        *("--workers", "1"),
        *("--store-path", str(path if number == 1 else path.with_name(f"{path.name}-{number}"))),
        *("--rest-port", str(port and port + number - 1)),
        *(() if name is None else ("--worker-id", f"{name}-{number}")),
    ]


class WorkerProcesses:
    """Processes that run until a signal; one that cannot start for the first time ends all.

    Args:
        commands: one each; it says by sd_notify(3) that it is ready, and that it is alive.
        silent: seconds without a sign of life after which one that was ready is killed.
        pause: seconds until one that has ended is started again; longer from one time to the next.
    """

    def __init__(
        self, commands: Iterable[Sequence[str]], *, silent: float = _SILENT, pause: float = _FIRST
    ) -> None:
        self._processes = [_Process(number, command) for number, command in enumerate(commands, start=1)]
        self._silent = silent
        self._pause = pause
        self._told = False

    async def run(self) -> int:
        """The highest exit code; 128 + the signal that killed a process, or that cut the stop short."""
        signals = StopSignals()
        signals.on_first(self._signal_all)
        with tempfile.TemporaryDirectory(prefix="replicator-") as directory:
            for each in self._processes:
                await each.listen(Path(directory) / f"{each.number}.sock")
            watching = asyncio.create_task(self._watch(), name="watch")
            keeping = [asyncio.create_task(self._keep(each, signals)) for each in self._processes]
            try:
                await asyncio.wait(keeping, return_when=asyncio.FIRST_COMPLETED)
                if not signals.asked.is_set():
                    signals.asked.set()
                    self._signal_all(signal.SIGTERM)
                return max(await asyncio.gather(*keeping))
            except asyncio.CancelledError:
                if signals.second is None:
                    raise
                self._signal_all(signals.second)
                return 128 + signals.second
            finally:
                watching.cancel()
                for each in self._processes:
                    await each.close()

    def _signal_all(self, number: signal.Signals) -> None:
        systemd.stopping()
        for each in self._processes:
            each.signal(number)

    async def _keep(self, process: _Process, signals: StopSignals) -> int:
        """Runs one until all are asked to stop, or it cannot start; its exit code."""
        backoff = Backoff(self._pause, _MOST)
        while True:
            code = await process.run()
            if signals.asked.is_set() or not process.was_ready:
                return code
            pause = backoff.next()
            log.error("worker process ended", process=process.number, code=code, restart_seconds=round(pause, 1))
            await signals.unless_asked(asyncio.sleep(pause))
            if signals.asked.is_set():
                return ExitCode.OK

    async def _watch(self) -> None:
        """Kills what stands still, and tells systemd of the others."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(1.0, self._silent / 4))
            for each in self._processes:
                silent = 0.0 if each.heard is None else loop.time() - each.heard
                if silent > self._silent:
                    log.error("worker process stands still", process=each.number, seconds=round(silent))
                    each.signal(signal.SIGKILL)
            systemd.alive()
            if not self._told and all(each.was_ready for each in self._processes):
                self._told = True
                systemd.ready(f"{len(self._processes)} worker processes")


class _Process(asyncio.DatagramProtocol):
    """One worker process, start after start, and what it says of itself."""

    def __init__(self, number: int, command: Sequence[str]) -> None:
        self.number = number
        #: Whether it was ready once.
        self.was_ready = False
        #: By the loop's clock; None before it is ready.
        self.heard: float | None = None
        self._command = command
        self._socket = Path()
        self._transport: asyncio.DatagramTransport | None = None
        self._process: asyncio.subprocess.Process | None = None

    async def listen(self, path: Path) -> None:
        """Hears what it says."""
        self._socket = path
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: self, local_addr=str(path), family=socket.AF_UNIX
        )

    def datagram_received(self, data: bytes, _: object) -> None:
        """A notification, as systemd would get it."""
        words = data.decode(errors="replace").split("\n")
        if "READY=1" in words:
            self.was_ready = True
        elif not self.was_ready:
            systemd.relay(words)  # it waits for brokers, and needs more time
        if self.was_ready:
            self.heard = asyncio.get_running_loop().time()

    async def run(self) -> int:
        """Starts it, and waits for its end; its exit code, or 128 + the signal that ended it."""
        self.heard = None
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            env=os.environ | {"NOTIFY_SOCKET": str(self._socket), PROCESS: str(self.number)},
            process_group=0,  # a terminal sends Ctrl-C to all of a group, and it would come twice
            preexec_fn=_end_with_parent,
        )
        code = await self._process.wait()
        self.heard = None
        return code if code >= 0 else 128 - code

    def signal(self, number: signal.Signals) -> None:
        """Sends it a signal, if it runs."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def close(self) -> None:
        """Waits for its end, and hears nothing more."""
        if self._process is not None:
            await self._process.wait()
        if self._transport is not None:
            self._transport.close()


def _end_with_parent() -> None:
    """Has the kernel ask a child to stop when this process is killed; only Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
