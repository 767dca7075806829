"""What was changed at the target beside messages: one JSON object a line, in a file that is turned over."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from io import BufferedWriter, FileIO, TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

__all__ = ["Audit"]

#: Bytes of one file, and how many old ones are kept beside it.
_BYTES: Final = 16 * 1024 * 1024
_OLD: Final = 3


class _File(RotatingFileHandler):
    """Raises what it cannot write; the library would print it, and go on."""

    def _open(self) -> TextIOWrapper:
        """For its owner only: it says who may do what at the target."""
        file = FileIO(self.baseFilename, self.mode, opener=lambda path, flags: os.open(path, flags, 0o600))
        return TextIOWrapper(BufferedWriter(file), encoding=self.encoding)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the library's name
        error = sys.exception()
        assert error is not None  # noqa: S101 - it is called while one is handled
        raise error


class Audit:
    """Appends to `path`, which is made with the first entry."""

    def __init__(self, path: Path) -> None:
        self._file = _File(path, maxBytes=_BYTES, backupCount=_OLD, delay=True, encoding="utf-8")

    def write(self, entry: Mapping[str, Any]) -> None:
        """Adds an entry.

        Raises:
            OSError: the file cannot be written.
        """
        line = json.dumps(entry, ensure_ascii=False)
        record = logging.LogRecord("audit", logging.INFO, "", 0, "%s", (line,), None)
        if self._file.shouldRollover(record):
            self._file.doRollover()
        logging.FileHandler.emit(self._file, record)

    def close(self) -> None:
        """Ends it."""
        self._file.close()
