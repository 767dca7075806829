"""The processes that run on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

__all__ = ["RunningProcess", "running_processes"]


class RunningProcess(NamedTuple):
    """Its id, its parent's, and its command line, with a space between words."""

    pid: int
    parent: int
    command: str


def running_processes() -> Iterator[RunningProcess]:
    """All that run, but what ends meanwhile."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                command = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
                yield RunningProcess(int(entry.name), int(parent), command)
