"""What was changed at the target beside messages, and which connectors were changed here: one JSON object a line,
in a file that is turned over. It outlives the process: the next one can tell what people have asked for.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections import deque
from collections.abc import Mapping
from io import BufferedWriter, FileIO, TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

import msgspec
from structlog.contextvars import get_contextvars

from replicator.observe.logging import get_logger

__all__ = ["AUDIT", "Audit"]

#: Its file, in a worker's directory.
AUDIT: Final = "audit.jsonl"

#: Bytes of one file, and how many old ones are kept beside it.
_BYTES: Final = 16 * 1024 * 1024
_OLD: Final = 3
#: What each line has that somebody has asked for.
_ASKED: Final = b'"actor": "'
#: Seconds since the epoch that calendars have.
_LATEST: Final = 4e9

log = get_logger(__name__)


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
        self._path = path
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

    def note(self, entry: Mapping[str, Any]) -> str:
        """Adds an entry, or logs it where it cannot be written: what it tells has been done.

        Returns:
            why it could not be written; empty if it was.
        """
        try:
            self.write(entry)
        except OSError as error:
            log.error("audit log entry could not be written", reason=str(error), entry=entry)
            return str(error)
        return ""

    def note_change(self, what: str, worker: str, **told: Any) -> None:
        """Adds what was done at `worker`, in the words of its log, with who has asked for it."""
        actor = str(get_contextvars().get("actor", ""))
        self.note(
            {"at": time.time(), "worker": worker, "what": what, **({"actor": actor} if actor else {}), **told}
        )

    def asked_for(self, most: int) -> list[dict[str, Any]]:
        """The last entries that say who has asked for it, oldest first, without half a line that a crash has left.

        Raises:
            OSError: the file cannot be read.
        """
        found = deque[dict[str, Any]]()
        for path in (self._path, *(Path(f"{self._path}.{number}") for number in range(1, _OLD + 1))):
            if len(found) == most or not path.exists():
                break
            with path.open("rb") as file:
                entries = (_entry(line) for line in file if _ASKED in line)
                last = deque((entry for entry in entries if entry), maxlen=most - len(found))
            found.extendleft(reversed(last))
        return [*found]

    def close(self) -> None:
        """Ends it."""
        self._file.close()


def _entry(line: bytes) -> dict[str, Any] | None:
    """What a line says, if somebody has asked for it."""
    try:
        found = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    at, actor = found.get("at"), found.get("actor")
    is_asked_for = isinstance(actor, str) and actor and isinstance(at, int | float) and 0 <= at <= _LATEST
    return found if is_asked_for else None
