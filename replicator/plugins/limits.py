"""What the worker's own settings let connectors do on its machine, whoever configures them."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from replicator.errors import ReplicatorError
from replicator.settings import Settings

__all__ = ["ConnectorLimits", "OutOfBounds", "open_inside", "refuse_outside"]

#: Rights of a file that a connector makes.
_MODE: Final = 0o640


class OutOfBounds(ReplicatorError):
    """A file that no connector may use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorLimits:
    """By default nothing.

    `accounts`: connectors may sync accounts. `file_dir`: files under this directory may be read and written.
    `through_proxy`: of the source only a Proxy is reached, and routes may do what works then.
    """

    accounts: bool = False
    file_dir: Path | None = None
    through_proxy: bool = False

    @classmethod
    def of(cls, settings: Settings) -> ConnectorLimits:
        """Those of a worker."""
        return cls(
            accounts="acl" in settings.sync,
            file_dir=settings.file_connector_dir,
            through_proxy=settings.source.proxy,
        )


def refuse_outside(directory: Path, path: Path) -> Path:
    """`path` without symbolic links.

    Raises:
        OutOfBounds: it is not under `directory`, or leads out of it.
    """
    found = path.resolve()
    if not found.is_relative_to(directory.resolve()):
        raise OutOfBounds(
            f"{path} is not inside file_connector_dir = {directory}",
            hint="name a file in it, by a path that no symbolic link leads out of",
        )
    return found


def open_inside(directory: Path, path: Path, flags: int) -> int:
    """A file descriptor of the regular file `path`, which is looked at now: links may have changed since before.

    Raises:
        OutOfBounds: it is not under `directory`, or no regular file.
        OSError: it cannot be opened.
    """
    file = os.open(refuse_outside(directory, path), flags | os.O_NOFOLLOW | os.O_NONBLOCK, _MODE)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OutOfBounds(f"{path} is not a regular file", hint="name one")
    return file
