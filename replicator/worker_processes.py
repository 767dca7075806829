"""`--workers N`: worker processes on one machine, which share the work as workers on several machines do.

The process that is started copies nothing. It starts the others, passes signals on to them, starts again what has
ended or stands still, and notifies systemd on behalf of all. Each has a state directory, a REST port and,
where one was given, an id of its own.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import replicator
from replicator import systemd
from replicator.aio.backoff import Backoff
from replicator.errors import StartupError
from replicator.exit_codes import ExitCode
from replicator.observe.logging import PROCESS, configure, get_logger, log_repeats
from replicator.parent_guard import guarded
from replicator.settings import Settings
from replicator.state.store import numbered
from replicator.stop_signals import StopSignals

__all__ = ["WorkerProcesses", "own_flags", "run", "worker_command"]

#: Seconds until a process that has ended is started again.
_FIRST: Final = 1.0
_MOST: Final = 30.0
#: Seconds without a sign of life after which one that was ready is killed; a sign comes every second.
_SILENT: Final = 30.0
#: Seconds until a process that does not end after the last signal is killed.
_PATIENCE: Final = 10.0

log = get_logger(__name__)


def run(settings: Settings) -> int:
    """Runs `settings.workers` processes until they are asked to stop; the exit code as `WorkerProcesses.run`."""
    configure(level=settings.log_level)
    commands = [[*worker_command(), *own_flags(settings, number)] for number in range(1, settings.workers + 1)]
    return asyncio.run(WorkerProcesses(commands, drain=settings.drain_timeout).run())


def worker_command() -> list[str]:
    """What starts one worker as this process was started."""
    # Nothing is imported from the working directory, unless that is where this program itself comes from.
    safe = () if Path(replicator.__file__).resolve().parents[1] == Path.cwd() else ("-P",)
    return [sys.executable, *safe, "-m", "replicator", *sys.argv[1:]]


def own_flags(settings: Settings, number: int) -> list[str]:
    """What process `number`, counted from 1, has to itself; given last, these flags count."""
    path, port, name = settings.store_path, settings.rest.port, settings.worker_id
    return [
        *("--workers", "1"),
        *("--store-path", str(numbered(path if number == 1 else path.resolve(), number))),
        *("--rest-port", str(port and port + number - 1)),
        *(() if name is None else ("--worker-id", f"{name}-{number}")),
    ]


class WorkerProcesses:
    """Processes that run until a signal; one that cannot start for the first time ends all.

    Args:
        commands: one each; it says by sd_notify(3) that it is ready, and that it is alive.
        silent: seconds without a sign of life after which one that is ready is killed.
        pause: seconds until one that has ended is started again; longer from one time to the next.
        patience: seconds that a process has to end after the last signal that it gets.
        drain: seconds before that for sending what was pulled, where all are ended because one cannot start.
    """

    def __init__(
        self,
        commands: Iterable[Sequence[str]],
        *,
        silent: float = _SILENT,
        pause: float = _FIRST,
        patience: float = _PATIENCE,
        drain: float = 0.0,
    ) -> None:
        self._processes = [_Process(number, command) for number, command in enumerate(commands, start=1)]
        self._silent = silent
        self._pause = pause
        self._patience = patience
        self._drain = drain
        self._logged = False

    async def run(self) -> int:
        """Runs them until a signal comes, or one cannot start for the first time; returns when all have ended.

        The exit code is then the highest of all, or that of the one that could not start. A process that a signal
        has killed counts as 128 + that signal; where a signal comes while they are stopping already, they get it
        too, have a little time, and the exit code is 128 + its number.

        Raises:
            StartupError: there is no place where they can be heard.
        """
        signals = StopSignals()
        signals.on_first(self._signal_all)
        with await self._listen():
            watching = asyncio.create_task(self._watch(), name="watch")
            keeping = [asyncio.create_task(self._keep(each, signals)) for each in self._processes]
            try:
                ended, _ = await asyncio.wait(keeping, return_when=asyncio.FIRST_COMPLETED)
                if signals.asked.is_set():
                    return max(await asyncio.gather(*keeping))
                signals.asked.set()
                self._signal_all(signal.SIGTERM)
                if self._drain:
                    await asyncio.wait(keeping, timeout=self._drain)
                return max(await asyncio.gather(*ended))
            except asyncio.CancelledError:
                if signals.second is None:
                    raise
                self._signal_all(signals.second)
                return 128 + signals.second
            finally:
                signals.end()
                await asyncio.gather(*(each.close(self._patience) for each in self._processes))
                watching.cancel()
                for keeper in keeping:
                    keeper.cancel()

    async def _listen(self) -> tempfile.TemporaryDirectory[str]:
        """Has each heard by a socket of its own, in the directory that is returned."""
        made = None
        try:
            made = tempfile.TemporaryDirectory(prefix="replicator-")
            for each in self._processes:
                await each.listen(Path(made.name) / f"{each.number}.sock")
        except OSError as error:
            if made is not None:
                made.cleanup()
            raise StartupError(
                f"TMPDIR = {os.environ.get('TMPDIR', '')!r} cannot take the sockets of the worker processes"
                f" ({error.strerror or error})",
                hint="name a directory with a short path that this user can write",
            ) from None
        return made

    def _signal_all(self, number: signal.Signals) -> None:
        systemd.stopping()
        for each in self._processes:
            each.stop(number)

    async def _keep(self, process: _Process, signals: StopSignals) -> int:
        """Runs one until all are asked to stop, or it cannot start; its exit code."""
        backoff, loop = Backoff(self._pause, _MOST), asyncio.get_running_loop()
        while not signals.asked.is_set():
            begun = loop.time()
            try:
                code = await process.run()
            except OSError as error:  # no memory or no process for a moment, which costs the others nothing
                log.error("worker process cannot be started", process=process.number, reason=str(error))
                code = ExitCode.UNUSABLE
            if signals.asked.is_set() or not process.was_ready:
                return code
            if loop.time() - begun > 2 * _MOST:
                backoff.reset()
            pause = backoff.next()
            log.error("worker process ended", process=process.number, code=code, restart_seconds=round(pause, 1))
            await signals.unless_asked(asyncio.sleep(pause))
        return ExitCode.OK

    async def _watch(self) -> None:
        """Kills what stands still, and tells systemd of the others."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(1.0, self._silent / 4))
            log_repeats()
            for each in self._processes:
                silent = 0.0 if each.heard is None else loop.time() - each.heard
                if silent > self._silent:
                    log.error("worker process unresponsive", process=each.number, seconds=round(silent))
                    each.kill()
            systemd.alive()
            if not self._logged and all(each.was_ready for each in self._processes):
                self._logged = True
                systemd.ready(f"{len(self._processes)} worker processes")


class _Process(asyncio.DatagramProtocol):
    """One worker process, start after start, and what it says of itself."""

    def __init__(self, number: int, command: Sequence[str]) -> None:
        self.number = number
        #: Whether it was ready at one of its starts.
        self.was_ready = False
        #: By the loop's clock; None while it starts, which may take long.
        self.heard: float | None = None
        self._command = command
        self._socket = Path()
        self._transport: asyncio.DatagramTransport | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._asked: signal.Signals | None = None

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
        now = asyncio.get_running_loop().time()
        if "READY=1" in words:
            self.was_ready, self.heard = True, now
        elif self.heard is not None:
            self.heard = now
        if not self.was_ready:
            systemd.relay(words)

    async def run(self) -> int:
        """Starts it, and waits for its end; its exit code, or 128 + the signal that ended it.

        Raises:
            OSError: it cannot be started.
        """
        self.heard = None
        self._process = await asyncio.create_subprocess_exec(
            *(guarded(signal.SIGTERM) if sys.platform == "linux" else ()),
            *self._command,
            env=os.environ | {"NOTIFY_SOCKET": str(self._socket), PROCESS: str(self.number)},
            process_group=0,  # a terminal sends Ctrl-C to all of a group, and it would come twice
        )
        if self._asked is not None:  # while it was being made
            self.stop(self._asked)
        code = await self._process.wait()
        ready, self.heard = self.heard is not None, None
        if code < 0 and not ready and -code == self._asked:
            return ExitCode.OK  # asked before it could listen
        return code if code >= 0 else 128 - code

    def stop(self, number: signal.Signals) -> None:
        """Asks it to end."""
        self._asked = number
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def kill(self) -> None:
        """Ends it at once."""
        self.heard = None
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def close(self, patience: float) -> None:
        """Waits for its end, and hears nothing more; asks it to end where nobody has.

        It is killed after `patience` seconds.
        """
        if self._process is not None and self._process.returncode is None:
            if self._asked is None:
                self.stop(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._process.wait(), patience)
            except TimeoutError:
                self.kill()
                await self._process.wait()
        if self._transport is not None:
            self._transport.close()
