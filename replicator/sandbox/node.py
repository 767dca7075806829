"""What brokers and name servers have in common: one JVM on fixed ports that can be started, paused and ended."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from replicator.errors import SandboxError
from replicator.sandbox import config, java, ports
from replicator.sandbox.class_archive import ClassArchive
from replicator.sandbox.process import EarlierProcess, Process, ProcessId
from replicator.sandbox.spec import ClusterSpec
from replicator.sandbox.tls import TlsFiles

__all__ = ["Earlier", "Node", "Setup"]

#: Seconds until a node answers: a JVM needs some, and many times as long where a dozen start on two cores.
_START_SECONDS = 180.0
#: Seconds for an orderly shutdown, in which a broker writes out what it has in memory; then it is killed.
_STOP_SECONDS = 60.0
#: Seconds after which a start is assisted first, and between two times: until then most nodes need no help.
_UNASSISTED_SECONDS = 1.5
_ASSIST_SECONDS = 0.5
#: Seconds between two looks whether a node answers: what a start is prolonged by, at most.
_PROBE_SECONDS = 0.1
#: The port of a node in its block; the two below it are a broker's for replicas and its VIP port.
_PORT = 2
#: Lines at the end of a log that an error shows: a Java exception with its first frames.
_LOG_LINES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """A node's process that another command has started, and its port. It may have ended."""

    id: ProcessId
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The environment that all nodes of a cluster share."""

    spec: ClusterSpec
    classpath: Sequence[Path]
    archive: ClassArchive
    tls: TlsFiles | None
    context: ssl.SSLContext | None
    java_flags: Sequence[str]
    # Called with every process that was started. Without it, the processes end with ours.
    record: Callable[[Node], None] | None
    # Called with what has been done.
    say: Callable[[str], None]
    # By the names of their directories; none of a cluster that is new.
    earlier: Mapping[str, Earlier]


class Node(ABC):
    """A RocketMQ process. It can be ended and restarted, on the same ports with the same files."""

    role = ""

    def __init__(self, name: str, *, home: Path, setup: Setup) -> None:
        self.name = name
        self.address = ""
        self.home = home
        self.loaded_classes = home / "loaded-classes"
        self._setup = setup
        earlier = setup.earlier.get(home.name)
        self._ports: ports.PortBlock | None = None
        self._process: Process | EarlierProcess | None = None
        if earlier is None:
            self._ports = ports.lease()
            self.port = self._ports.base + _PORT
        else:  # it holds its ports while it runs; they are leased again when it is to start again
            self._process, self.port = EarlierProcess(earlier.id), earlier.port

    @property
    def block(self) -> int:
        """The first of its ports."""
        return self.port - _PORT

    @property
    def pid(self) -> int:
        return self.process_id.pid

    @property
    def process_id(self) -> ProcessId:
        if self._process is None:
            raise SandboxError(f"{self.name} has not been started")
        return self._process.id

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running()

    async def start(self) -> None:
        """Start it and wait until it answers."""
        if self.running:
            raise SandboxError(f"{self.name} runs already (pid {self.pid})")
        self.home.mkdir(parents=True, exist_ok=True)
        if self._setup.spec.version.startswith("4."):
            config.logging_4x(self.home)
        if self._ports is None:
            self._ports = ports.lease_again(self.block)
        console = self.home / "console.log"
        begin = console.stat().st_size if console.exists() else 0
        process = self._process = Process(
            [str(java.java()), *self._flags(), self._main_class(), *self._arguments()],
            directory=self.home,
            log=console,
            environment=java.environment(HOME=str(self.home), ROCKETMQ_HOME=str(self.home)),
            descriptor=self._ports.descriptor,
            detached=self._setup.record is not None,
        )
        if self._setup.record is not None:
            self._setup.record(self)
        deadline = time.monotonic() + _START_SECONDS
        assist_at = time.monotonic() + _UNASSISTED_SECONDS
        while not await self.answers():
            if not process.running():
                raise self._start_error(f"ended with code {process.exit_code()}", begin=begin)
            if time.monotonic() > deadline:
                await self.kill()
                raise self._start_error(f"did not answer within {_START_SECONDS:g} s", begin=begin)
            if time.monotonic() > assist_at:
                await self.assist()
                assist_at = time.monotonic() + _ASSIST_SECONDS
            await asyncio.sleep(_PROBE_SECONDS)
        self._setup.say(f"{self.role} {self.name} answers at {self.address}")

    async def stop(self) -> None:
        """SIGTERM: an orderly shutdown."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """SIGKILL: like a power failure, except that the kernel still writes its buffers."""
        await self._end(signal.SIGKILL)

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay open, but it does not answer."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def move(self) -> None:
        """Give it other ports, to be used when it starts again."""
        before, self._ports = self._ports, ports.lease()
        if before is not None:
            before.release()
        self.port = self._ports.base + _PORT

    def release(self) -> None:
        """Release the ports; the node cannot be used any more."""
        if self._ports is not None:
            self._ports.release()

    @abstractmethod
    async def answers(self) -> bool:
        """Whether it serves requests now."""

    async def assist(self) -> None:  # noqa: B027 - not every node needs it
        """Helps it from outside to answer sooner."""

    @abstractmethod
    def _main_class(self) -> str: ...

    @abstractmethod
    def _arguments(self) -> list[str]: ...

    @abstractmethod
    def _memory(self) -> Sequence[str]: ...

    def _flags(self) -> list[str]:
        setup = self._setup
        return [
            *self._memory(),
            *setup.archive.flags(self.loaded_classes),
            *setup.java_flags,
            *self._tls_flags(),
            f"-Duser.home={self.home}",  # its logs
            f"-Djava.io.tmpdir={self.home}",  # libraries that it unpacks, which remain after a kill
            f"-Drocketmq.home.dir={self.home}",
            "-cp",
            os.pathsep.join(map(str, setup.classpath)),
        ]

    def _tls_flags(self) -> Sequence[str]:
        if self._setup.tls is not None:
            return self._setup.tls.flags()
        return () if self._setup.spec.tls_permissive else ("-Dtls.server.mode=disabled",)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None or not self._process.running():
            raise SandboxError(f"{self.name} does not run")
        self._process.signal(number)

    async def _end(self, number: signal.Signals) -> None:
        process = self._process
        if process is None:
            return
        process.signal(number)
        process.signal(signal.SIGCONT)  # a paused process would not handle the SIGTERM
        if not await process.ended(seconds=_STOP_SECONDS):
            process.signal(signal.SIGKILL)
            await process.ended(seconds=_STOP_SECONDS)
            raise SandboxError(f"{self.name} did not end within {_STOP_SECONDS:g} s and was killed")

    def _delete(self, directory: Path) -> None:
        if self.running:
            raise SandboxError(f"{self.name} runs: stop it before its files are deleted")
        shutil.rmtree(directory, ignore_errors=True)

    def _start_error(self, what: str, *, begin: int) -> SandboxError:
        logs = [self.home / "console.log", *sorted(self.home.glob("logs/**/*.log"))]
        for log in logs:
            if log.exists() and log.stat().st_size > (begin if log.name == "console.log" else 0):
                lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
                return SandboxError(f"{self.name} {what}; the end of {log}:\n" + "\n".join(lines))
        return SandboxError(f"{self.name} {what} and logged nothing in {self.home}")
