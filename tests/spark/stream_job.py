"""`replicator run --engine spark` in a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.scene import Scene

__all__ = ["Job"]


class Job:
    """Of the topics whose names begin with that of `scene`; its output is in `log`."""

    def __init__(
        self, scene: Scene, directory: Path, *flags: str, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._flags = ["--source", scene.source.namesrv, "--target", scene.target.namesrv]
        self._flags += ["--topics", f"{scene.topic}.*", "--store-path", str(directory / "store")]
        self._flags += ["--checkpoint", str(directory / "checkpoint"), "--session-timeout", "3", *flags]
        self._environment = environment
        self._log = directory / "log"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.subprocess.Process]:
        """Ended with the context, if it still runs."""
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "replicator", "run", "--engine", "spark", *self._flags),
                stdout=log,
                stderr=log,
                env=self._environment,
            )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")
