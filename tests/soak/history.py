"""What happened, line by line, as it happens: a file that only grows, to judge by and to read afterwards."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["History"]


class History:
    """JSON lines in `path`: seconds since the beginning, what, and its particulars."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begun = time.monotonic()

    def __enter__(self) -> History:
        self._file = self._path.open("a", encoding="utf-8")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, what: str, **more: Any) -> None:
        line = {"at": round(time.monotonic() - self._begun, 3), "what": what, **more}
        self._file.write(json.dumps(line, default=str) + "\n")
        self._file.flush()

    def entries(self) -> Iterator[dict[str, Any]]:
        """All lines, in their order."""
        with self._path.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)

    def of(self, what: str) -> Iterator[dict[str, Any]]:
        """Those about `what`."""
        return (entry for entry in self.entries() if entry["what"] == what)
