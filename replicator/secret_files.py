"""Files of secrets and certificates that are read again when they change, so that a worker needs no restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from replicator.errors import ReplicatorError
from replicator.observe.logging import get_logger

__all__ = ["SecretFiles"]

#: Seconds between two checks. A change is used at the check after the one that sees it: a certificate and its key
#: are two files, and whoever renews them writes one after the other.
_POLL_INTERVAL: Final = 2.0

log = get_logger(__name__)

#: What tells one content of a file from another, and who may read it: inode, times and size; None where there is no
#: such file.
_Seen = tuple[tuple[int, ...] | None, ...]


@dataclass(slots=True)
class _Watched:
    files: tuple[Path, ...]
    renew: Callable[[], None]
    used: _Seen = field(init=False)
    seen: _Seen = field(init=False)

    def __post_init__(self) -> None:
        self.used = self.seen = self.now()

    def now(self) -> _Seen:
        return tuple(map(_state, self.files))


class SecretFiles:
    """Looks at files, and calls who uses them when they have changed; what cannot be used changes nothing."""

    def __init__(self) -> None:
        self._watched: dict[str, _Watched] = {}

    def watch(self, name: str, files: Iterable[Path | None], renew: Callable[[], None]) -> None:
        """Calls `renew` when one of `files` has changed, from another thread than the event loop's.

        Args:
            name: what the files are for, in the log; a later call of the same name takes the place of this one.
            renew: reads the files; raises ReplicatorError if they cannot be used, and leaves all as it was.
        """
        named = tuple(file for file in files if file is not None)
        if named:
            self._watched[name] = _Watched(named, renew)

    async def run(self) -> None:
        """Looks until it is cancelled."""
        while True:
            await asyncio.sleep(_POLL_INTERVAL)
            await asyncio.to_thread(self.check)

    def check(self) -> None:
        """Looks once."""
        for name, watched in list(self._watched.items()):
            now = watched.now()
            if now == watched.seen != watched.used:
                watched.used = now
                self._renew(name, watched)
            watched.seen = now

    def _renew(self, name: str, watched: _Watched) -> None:
        try:
            watched.renew()
        except ReplicatorError as error:
            log.error("changed files cannot be used; what was read before stays in use", of=name, reason=str(error))
        else:
            log.info("changed files are used from now on", of=name, files=[str(file) for file in watched.files])


def _state(file: Path) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size
