"""Records the clusters of `sandbox up`: each process with its start time, so that `down` ends exactly those."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import signal
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from replicator.errors import ConfigError, SandboxError
from replicator.sandbox import ports
from replicator.sandbox.node import Node
from replicator.sandbox.process import ProcessId
from replicator.sandbox.spec import ClusterSpec

__all__ = ["Record", "RecordedProcess", "State", "directory", "kill", "named"]

#: Seconds until a process that was killed is gone: the kernel frees its memory first, and may be busy.
_END_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedProcess:
    """One process that was started.

    Attributes:
        directory: the name of that of its files, in the cluster's: a broker and its slave have one name.
    """

    name: str
    directory: str
    role: str
    address: str
    port: int
    pid: int
    started: int

    @property
    def id(self) -> ProcessId:
        return ProcessId(pid=self.pid, started=self.started)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One cluster that was started.

    Attributes:
        by: the command that starts it, process id and start time.
    """

    spec: ClusterSpec
    processes: tuple[RecordedProcess, ...]
    by: tuple[int, int]

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def version(self) -> str:
        return self.spec.version

    @property
    def acl(self) -> str:
        return self.spec.acl

    @property
    def tls(self) -> bool:
        return self.spec.tls

    @property
    def running(self) -> bool:
        return any(process.id.running() for process in self.processes)

    @property
    def starting(self) -> bool:
        """Whether another command than this one is still at it."""
        pid, started = self.by
        return pid != os.getpid() and ProcessId(pid=pid, started=started).running()


def directory() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base).absolute() / "rocketmq-replicator" / "sandbox"


class State:
    """The state file and the directories of the clusters in it."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or directory()
        self._file = self.root / "state.json"

    def cluster_directory(self, name: str) -> Path:
        return self.root / "clusters" / name

    def read(self) -> dict[str, Record]:
        try:
            content = json.loads(self._file.read_text(encoding="utf-8"))
            records = [
                Record(
                    spec=ClusterSpec(**entry["spec"]),
                    processes=tuple(RecordedProcess(**each) for each in entry["processes"]),
                    by=tuple(entry["by"]),
                )
                for entry in content["clusters"]
            ]
            return {record.name: record for record in records}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SandboxError(
                f"{self._file} cannot be read ({error})",
                hint="stop its clusters manually, then delete it",
            ) from error

    def add(self, spec: ClusterSpec, *, force: bool = False) -> None:
        """Record a cluster that is about to start here, empty.

        Args:
            force: the data of one of its name that has ended is deleted.

        Raises:
            SandboxError: there is one of its name: it runs or starts, or has data.
        """
        with self._exclusive():
            records = self.read()
            old = records.get(spec.name)
            if old is not None and old.starting:
                raise SandboxError(f"cluster {spec.name} is being started", hint="replicator sandbox status")
            if old is not None and old.running:
                raise SandboxError(f"cluster {spec.name} is already running", hint="replicator sandbox down")
            if old is not None and old.processes and not force:
                raise SandboxError(
                    f"cluster {spec.name} has ended, and its data is still there",
                    hint=f"`replicator sandbox start {spec.name}` brings it back; `sandbox up` with --force deletes"
                    " the data and starts an empty one, `replicator sandbox down` deletes that of all clusters",
                )
            shutil.rmtree(self.cluster_directory(spec.name), ignore_errors=True)
            records[spec.name] = Record(spec=spec, processes=(), by=_own())
            self._write(records)

    def resume(self, name: str) -> Record:
        """Record that processes of a cluster are about to start here again; the record from before."""
        with self._exclusive():
            records = self.read()
            old = records[name]
            if old.starting:
                raise SandboxError(f"cluster {name} is being started", hint="replicator sandbox status")
            records[name] = replace(old, by=_own())
            self._write(records)
        return old

    def record(self, spec: ClusterSpec, node: Node) -> None:
        """Record a process that was just started, in the place of the one before it."""
        identity = node.process_id
        process = RecordedProcess(
            name=node.name,
            directory=node.home.name,
            role=node.role,
            address=node.address,
            port=node.port,
            pid=identity.pid,
            started=identity.started,
        )
        with self._exclusive():
            records = self.read()
            if spec.name not in records:
                raise SandboxError(f"cluster {spec.name} was ended while it started", hint="start it again")
            old = records[spec.name]
            ports.reserve(node.block, self._file)
            processes = {each.directory: each for each in old.processes} | {process.directory: process}
            records[spec.name] = replace(old, processes=tuple(processes.values()))
            self._write(records)

    async def end(self, name: str) -> None:
        """End the cluster's processes, delete its files, and remove its record."""
        record = self.read().get(name)
        if record is None:
            return
        await kill(record.processes)  # their files are deleted next, so they need no orderly shutdown
        await asyncio.to_thread(shutil.rmtree, self.cluster_directory(name), ignore_errors=True)
        with self._exclusive():
            records = self.read()
            records.pop(name, None)
            self._write(records)

    def _write(self, records: dict[str, Record]) -> None:
        fresh = self._file.with_suffix(".new")
        content = {"clusters": [_written(record) for record in records.values()]}
        fresh.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        fresh.replace(self._file)

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


async def kill(processes: Iterable[RecordedProcess]) -> None:
    """SIGKILL, and wait until all have ended."""
    processes = [*processes]
    for process in processes:
        process.id.signal(signal.SIGKILL)
    for process in processes:
        if not await process.id.ended(seconds=_END_SECONDS):
            raise SandboxError(f"process {process.pid} ({process.name}) does not end")


def named(state: State, names: Iterable[str]) -> list[tuple[Record, list[RecordedProcess]]]:
    """What each name stands for, cluster by cluster: all processes of a cluster, or those that have the name.

    Raises:
        ConfigError: nothing has one of the names.
        SandboxError: no cluster is up.
    """
    records, wanted = state.read(), {*names}
    if not records:
        raise SandboxError("no clusters are up", hint="start some with `replicator sandbox up`")
    known = {*records, *(process.name for record in records.values() for process in record.processes)}
    for name in sorted(wanted - known):
        raise ConfigError(
            f"nothing is called {name!r}: there are {', '.join(sorted(known))}", hint="name one of these"
        )
    found = [
        (record, [each for each in record.processes if wanted & {record.name, each.name}])
        for record in records.values()
    ]
    return [(record, processes) for record, processes in found if processes]


def _own() -> tuple[int, int]:
    own = ProcessId.of(os.getpid())
    return own.pid, own.started


def _written(record: Record) -> dict[str, Any]:
    spec = {each.name: getattr(record.spec, each.name) for each in fields(record.spec)}
    return {
        "spec": spec | {"properties": dict(record.spec.properties)},
        "processes": [asdict(process) for process in record.processes],
        "by": record.by,
    }
