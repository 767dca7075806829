"""A second witness: producers and consumers of rocketmq-client-python, each in a process of its own.

The client has one connection pool a process for all clusters and can take its process down, so it never
runs inside a test. The programs of replicator.demo.pyclient speak lines of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROGRAMS = "replicator.demo.pyclient"

_END_SECONDS = 20.0


class PyClientError(RuntimeError):
    """A client process failed, or a message could not be sent."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message as the consumer printed it. `properties` are only those that were requested."""

    topic: str
    queue: int
    offset: int
    msg_id: str
    born: int
    stored: int
    reconsumed: int
    body: str
    keys: str
    tags: str
    properties: Mapping[str, str] = field(default_factory=dict)


def install() -> Path:
    """Installs the client once; the directory to import it from."""
    command = [sys.executable, "-m", f"{PROGRAMS}.install"]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode != 0:
        raise PyClientError(f"rocketmq-client-python cannot be installed: {result.stderr.strip()}")
    return Path(result.stdout.strip())


class _Process:
    """One program, from its first line to its clean end."""

    def __init__(self, program: str, arguments: Sequence[str], *, credentials: tuple[str, str] | None) -> None:
        self._command = [sys.executable, "-m", f"{PROGRAMS}.{program}", *arguments]
        self._credentials = credentials
        self._home = Path(tempfile.mkdtemp(prefix="pyclient-"))
        self._process: asyncio.subprocess.Process | None = None
        self.exit_code: int | None = None

    async def __aenter__(self) -> Self:
        site = await asyncio.to_thread(install)
        # The C++ library writes its logs below HOME.
        environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(site), "HOME": str(self._home)}
        if self._credentials is not None:
            environment["ROCKETMQ_ACCESS_KEY"], environment["ROCKETMQ_SECRET_KEY"] = self._credentials
        with (self._home / "errors").open("wb") as errors:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env=environment,
                limit=1 << 24,
            )
        try:
            await self.read()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    @property
    def running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise PyClientError("the client has not been started")
        return self._process

    async def read(self) -> dict[str, Any]:
        """The next line."""
        assert self.running.stdout is not None
        line = await self.running.stdout.readline()
        if not line:
            code = await self.running.wait()
            raise PyClientError(f"the client ended with {code}: {self._errors()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def write(self, line: Mapping[str, object]) -> None:
        assert self.running.stdin is not None
        self.running.stdin.write(json.dumps(line).encode() + b"\n")

    def _errors(self) -> str:
        return (self._home / "errors").read_text(errors="replace").strip()

    async def _end(self) -> None:
        process = self.running
        assert process.stdin is not None
        process.stdin.close()
        try:
            # Its last lines must be taken, or a full pipe would hold it.
            await asyncio.wait_for(process.communicate(), _END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
        self.exit_code = process.returncode
        shutil.rmtree(self._home, ignore_errors=True)


class PyProducer(_Process):
    """Sends one message at a time; `async with PyProducer(namesrv) as producer`."""

    def __init__(
        self, namesrv: str, *, group: str = "python-producer", credentials: tuple[str, str] | None = None
    ) -> None:
        arguments = ["--namesrv", namesrv, "--group", group]
        super().__init__("producer", arguments, credentials=credentials)

    async def send(
        self,
        topic: str,
        body: str,
        *,
        keys: str = "",
        tags: str = "",
        properties: Mapping[str, str] | None = None,
        delay_level: int = 0,
    ) -> tuple[str, int]:
        """The message's id and its offset in the queue that the client chose."""
        line = {"topic": topic, "body": body, "keys": keys, "tags": tags, "delay_level": delay_level}
        self.write({**line, "properties": dict(properties or {})})
        answer = await self.read()
        if "error" in answer:
            raise PyClientError(answer["error"])
        return answer["msg_id"], answer["offset"]


class PyConsumer(_Process):
    """A member of a consumer group; what it gave out is committed when it ends."""

    def __init__(
        self,
        namesrv: str,
        topic: str,
        *,
        group: str,
        expression: str = "*",
        properties: Sequence[str] = (),
        orderly: bool = False,
        credentials: tuple[str, str] | None = None,
    ) -> None:
        arguments = ["--namesrv", namesrv, "--topic", topic, "--group", group, "--expression", expression]
        arguments += [part for name in properties for part in ("--property", name)]
        arguments += ["--orderly"] if orderly else []
        super().__init__("consumer", arguments, credentials=credentials)

    async def take(self, count: int, *, seconds: float = 60.0) -> list[Received]:
        """The next `count` messages."""
        async with asyncio.timeout(seconds):
            return [Received(**await self.read()) for _ in range(count)]
