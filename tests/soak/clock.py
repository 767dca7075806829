"""The clock of one worker's process, which can be set while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.debian import unpacked

__all__ = ["Clock"]

#: Seconds until a process notices that its clock was set.
_NOTICED: Final = 1


class Clock:
    """Wall time of the processes that run with `environment`; the monotonic clock stays as it is.

    `file` says by how much it is wrong.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0)
        (library,) = unpacked("libfaketime").glob("usr/lib/*/faketime/libfaketime.so.1")
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_CACHE_DURATION": str(_NOTICED),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set(self, seconds: float) -> None:
        """From now on it is wrong by `seconds`."""
        temporary = self._file.with_suffix(".new")
        temporary.write_text(f"{seconds:+.3f}")
        temporary.replace(self._file)
