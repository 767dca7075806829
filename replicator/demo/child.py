"""A process of the demo: not reached by the terminal's Ctrl-C, and ended together with its children."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from replicator.errors import ReplicatorError
from replicator.parent_guard import guarded

__all__ = ["Child", "DemoError"]

_SHOWN_LINES = 15


class DemoError(ReplicatorError):
    """A part of the demo failed."""


class Child:
    """`python -m <arguments>`; its standard error goes to `log`, its standard output is for `read`."""

    def __init__(self, *arguments: str, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.name = arguments[0]
        self.log = log
        # The kernel kills it when this process dies for any reason.
        self._command = [*guarded(signal.SIGKILL), sys.executable, "-m", *arguments]
        self._environment = environment
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=None if self._environment is None else dict(self._environment),
                start_new_session=True,
                limit=1 << 20,
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        process = self._running
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        # Reads to the end of its output: only then is the pipe closed.
        await process.communicate()

    @property
    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise DemoError(f"{self.name} has not been started")
        return self._process

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._running.returncode

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._running.send_signal(number)

    async def ended(self, *, seconds: float) -> int:
        """Its exit code.

        Raises:
            DemoError: it is still running after `seconds`.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._running.wait()
        except TimeoutError:
            raise DemoError(f"{self.name} did not end within {seconds:g} s") from None

    async def read(self) -> dict[str, Any]:
        """The next line, parsed as JSON.

        Raises:
            DemoError: it has ended.
        """
        line = await self.read_line()
        if not line:
            raise self.failure(f"{self.name} ended with code {await self._running.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def read_line(self) -> str:
        """The next line of its output; empty at the end."""
        assert self._running.stdout is not None  # noqa: S101 - it was made with a pipe
        return (await self._running.stdout.readline()).decode().rstrip("\n")

    def write(self, line: Mapping[str, object]) -> None:
        assert self._running.stdin is not None  # noqa: S101 - it was made with a pipe
        self._running.stdin.write(json.dumps(line).encode() + b"\n")

    def close_input(self) -> None:
        """Closes its input: there is no more to do."""
        assert self._running.stdin is not None  # noqa: S101 - it was made with a pipe
        self._running.stdin.close()

    def failure(self, what: str) -> DemoError:
        """An error with the last lines of its log."""
        lines = self.log.read_text(errors="replace").strip().splitlines()[-_SHOWN_LINES:]
        return DemoError("\n".join([what, *lines]))
