"""A real SOCKS5 proxy for tests, on loopback: microsocks, from Debian's package."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.client.peer import unused_port
from tests.support.debian import program
from tests.support.worker import until

__all__ = ["PASSWORD", "USER", "Socks", "socks_proxy"]

USER, PASSWORD = "teller", "open sesame"


class Socks:
    """One that wants a user and a password; `log` has a line for each connection that it made."""

    def __init__(self, directory: Path, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self._port = port
        self._log_file = directory / "socks.log"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def log(self) -> str:
        return self._log_file.read_text()

    async def start(self) -> None:
        """Listens when this returns."""
        flags = ("-i", "127.0.0.1", "-p", str(self._port), "-u", USER, "-P", PASSWORD)
        with self._log_file.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                program("microsocks", "microsocks"), *flags, stdout=log, stderr=log, env=dict(os.environ)
            )
        await until(self._listens, seconds=10, what="microsocks")

    async def _listens(self) -> bool:
        _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.close()
        return True

    async def stop(self) -> None:
        """With all connections through it."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def socks_proxy(directory: Path) -> AsyncIterator[Socks]:
    made = Socks(directory, unused_port())
    try:
        await made.start()
        yield made
    finally:
        await made.stop()
