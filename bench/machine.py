"""The machine on which the figures were measured."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine and its software."""

    date: str
    cpu: str
    cores: int
    memory: int
    kernel: str
    python: str
    replicator: str
    load: float

    @classmethod
    def look(cls) -> Machine:
        return cls(
            date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            cpu=_cpu(),
            cores=len(os.sched_getaffinity(0)),
            memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            kernel=platform.release(),
            python=platform.python_version(),
            replicator=_version(),
            load=os.getloadavg()[0],
        )


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version() -> str:
    try:
        return metadata.version("rocketmq-replicator")
    except metadata.PackageNotFoundError:
        return "not installed"
