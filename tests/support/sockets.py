"""Which process on this machine a TCP connection belongs to."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

__all__ = ["listening", "ports_of", "unread", "unsent"]


#: A socket's state in /proc/net/tcp.
_LISTENS: Final = "0A"


def _sockets(pid: int) -> list[list[str]]:
    inodes = set()
    with contextlib.suppress(FileNotFoundError):  # the process has ended
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                kind, _, inode = str(descriptor.readlink()).partition(":")
                if kind == "socket":
                    inodes.add(inode.strip("[]"))
    # Java's sockets are of IPv6, whatever they are bound to.
    texts = (Path(f"/proc/net/{table}").read_text() for table in ("tcp", "tcp6"))
    lines = (line.split() for text in texts for line in text.splitlines()[1:])
    return [fields for fields in lines if fields[9] in inodes]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def listening(pid: int) -> set[int]:
    """The ports at which process `pid` listens now."""
    return {_port(fields[1]) for fields in _sockets(pid) if fields[3] == _LISTENS}


def ports_of(pid: int) -> set[int]:
    """The local ports of all TCP sockets that process `pid` has open now."""
    return {_port(fields[1]) for fields in _sockets(pid)}


def unsent(pid: int, port: int) -> int:
    """Bytes that process `pid` has written to a peer's `port` and that the peer has not yet taken."""
    return sum(int(fields[4].split(":")[0], 16) for fields in _sockets(pid) if _port(fields[2]) == port)


def unread(pid: int, port: int) -> int:
    """Bytes that have come for process `pid` at its own `port` and that it has not yet taken."""
    return sum(int(fields[4].split(":")[1], 16) for fields in _sockets(pid) if _port(fields[1]) == port)
