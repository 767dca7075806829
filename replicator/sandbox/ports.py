"""Allocates blocks of free ports; threads and other sandboxes never get the same block.

Each block has a lock file with a flock on it. JVMs inherit the locked descriptor, so the block stays
taken as long as one of its processes runs, even after the sandbox's own process has ended. Those of a cluster
that was killed, and may be started again, are kept for it: the lock file names the state file that says so.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import tempfile
from pathlib import Path

from replicator.errors import SandboxError

__all__ = ["BLOCK", "PortBlock", "lease", "lease_again", "reserve"]

BLOCK = 4
# Below the kernel's ephemeral range (32768 and up): no outgoing connection can use these.
_FIRST, _LAST = 21000, 32000


class PortBlock:
    """`BLOCK` free ports in a row, starting with `base`; held until `release`."""

    def __init__(self, base: int, descriptor: int) -> None:
        self.base = base
        self.descriptor = descriptor

    def release(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def lease() -> PortBlock:
    """The first block that is not locked and on which nothing listens."""
    for base in range(_FIRST, _LAST, BLOCK):
        descriptor = _lock(base)
        if descriptor is None:
            continue
        if not _reserved(base) and all(_free(port) for port in range(base, base + BLOCK)):
            return PortBlock(base, descriptor)
        os.close(descriptor)
    raise SandboxError(
        f"no {BLOCK} free ports in a row between {_FIRST} and {_LAST}",
        hint="end other clusters first: replicator sandbox down",
    )


def lease_again(base: int) -> PortBlock:
    """The block that a process had which has ended.

    Raises:
        SandboxError: somebody else has taken it.
    """
    descriptor = _lock(base)
    if descriptor is not None:
        # Connections of the process before may still be closing, which keeps no broker from listening.
        if all(_free(port, reuse=True) for port in range(base, base + BLOCK)):
            return PortBlock(base, descriptor)
        os.close(descriptor)
    raise SandboxError(
        f"ports {base} to {base + BLOCK - 1} were taken by another process meanwhile",
        hint="end that one, or give up the data: replicator sandbox down",
    )


def reserve(base: int, state: Path) -> None:
    """Keep the block for a process that `state` records with one of its ports, until it does no longer."""
    _lock_file(base).write_text(str(state), encoding="utf-8")


def _reserved(base: int) -> bool:
    try:
        content = json.loads(Path(_lock_file(base).read_text(encoding="utf-8")).read_text(encoding="utf-8"))
        recorded = {process["port"] for cluster in content["clusters"] for process in cluster["processes"]}
    except (OSError, ValueError, KeyError, TypeError):  # nobody has reserved it, or the record is gone
        return False
    return not recorded.isdisjoint(range(base, base + BLOCK))


def _lock_file(base: int) -> Path:
    directory = Path(tempfile.gettempdir()) / f"rocketmq-replicator-ports-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory / f"{base}.lock"


def _lock(base: int) -> int | None:
    """The descriptor of a block's lock; None: somebody has it."""
    descriptor = os.open(_lock_file(base), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _free(port: int, *, reuse: bool = False) -> bool:
    # On every address, as 4.x brokers listen; and without SO_REUSEADDR, so that a port whose last
    # connections are still closing is skipped.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        if reuse:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
