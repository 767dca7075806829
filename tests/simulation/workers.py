"""A simulated worker: all of it as the service builds it, in a process of its own that can die at any moment."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from replicator import service
from replicator.client.security import Security
from replicator.errors import ReplicatorError
from replicator.settings import Settings
from replicator.state.store import Store
from replicator.worker.worker import Worker
from tests.simulation.kernel import Kernel, Process
from tests.simulation.loop import SimLoop
from tests.simulation.network import Host, Network

__all__ = ["SimWorker"]

#: Seconds until a service manager starts what has ended again.
_RESTART = 1.0


class _Listening:
    """What stands for the socket of REST."""

    def __init__(self, address: str) -> None:
        self._address = address

    def getsockname(self) -> tuple[str, int]:
        return self._address, 8083


class SimWorker:
    """The worker `name` with its disk in `directory`; `worker` is what runs of it now.

    `ended` are the ways in which its processes came to an end by themselves.
    """

    def __init__(
        self,
        kernel: Kernel,
        network: Network,
        *,
        name: str,
        address: str,
        directory: Path,
        settings: Mapping[str, Any],
    ) -> None:
        self.kernel = kernel
        self.network = network
        self.name = name
        self.directory = directory
        self.settings = Settings(**{**settings, "worker_id": name, "store_path": directory})
        self.host = network.hosts[address] = Host(address, Process(kernel, name))
        self.host.process.kill()
        self.worker: Worker | None = None
        self.ended: list[str] = []
        self.loops: list[SimLoop] = []
        self.incarnations: list[Worker] = []
        self._store: Store | None = None
        self._stop: asyncio.Event | None = None
        #: What a killed process leaves: collecting it would run its cleaning up.
        self._remains: list[object] = []

    @property
    def up(self) -> bool:
        return self.host.process.alive

    def start(self) -> None:
        """A new process."""
        process = self.host.process = Process(self.kernel, self.name)
        loop = SimLoop(process, self.host, self.network)  # type: ignore[abstract]  # what is not needed is not there
        self.loops.append(loop)
        self.kernel.current = process
        loop.within(lambda: self._remains.append(loop.create_task(self._main(), name=self.name)))
        self.kernel.current = None

    async def _main(self) -> None:
        self._stop = asyncio.Event()
        try:
            store = self._store = Store(self.directory)
            sock = cast("socket.socket", _Listening(self.host.name))
            security = {"source": Security(), "target": Security()}
            again = True
            while again:
                worker = await service._start(self.settings, security, store, sock, again=bool(self.worker))
                self.worker = worker
                self.incarnations.append(worker)
                try:
                    again = await worker.run(self._stop)
                finally:
                    await worker.close()
            self._end("drained")  # and the service manager starts it again, as after errors
        except ReplicatorError as error:
            self._end(f"{type(error).__name__}: {error}")
        except BaseException as error:  # noqa: BLE001 - it is what the simulation is to find
            self._end(f"{type(error).__name__}: {error!r}")
            self.loops[-1].failures.append({"message": "the worker has ended", "exception": error})

    def _end(self, how: str) -> None:
        self.ended.append(how)
        self._die()
        self.kernel.plan(_RESTART, self.start_again)

    def start_again(self) -> None:
        """Unless it runs."""
        if not self.up:
            self.start()

    def _die(self) -> None:
        self.host.process.kill()
        self.network.died(self.host)
        self._remains.append((self.worker, self._store))
        if self._store is not None:
            self._store.close()
        self.worker = self._store = None

    def kill(self) -> None:
        """As SIGKILL does."""
        self._die()

    def stop(self) -> None:
        """As SIGTERM does."""
        stop = self._stop
        if self.up and stop is not None:
            self.kernel.plan(0.0, lambda: self.loops[-1].within(stop.set), self.host.process)

    def wipe(self) -> None:
        """Its disk is gone."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True, exist_ok=True)
