"""A real Prometheus for tests: Debian's package, unpacked into the user's cache, run on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.debian import program
from tests.support.worker import until

__all__ = ["Prometheus", "check_page", "running", "tool"]


def tool(name: str) -> str:
    """`prometheus` or `promtool`: what is installed, else from Debian's package, which is fetched once.

    Raises:
        AssertionError: there is none, and none can be had.
    """
    return program(name, "prometheus")


def check_page(page: str) -> None:
    """Has promtool look at a page of metrics.

    Raises:
        AssertionError: what it finds.
    """
    command = [tool("promtool"), "check", "metrics"]
    checked = subprocess.run(command, input=page, capture_output=True, text=True, timeout=20, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


class Prometheus:
    """One that runs; its HTTP API."""

    def __init__(self, port: int, began: float) -> None:
        self.port = port
        self.began = began

    def ask(self, path: str, **parameters: object) -> Any:
        """What the API answers.

        Raises:
            OSError: nothing, or that the question is wrong.
        """
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}?{query}", timeout=20) as answer:
            body = answer.read()
        return json.loads(body)["data"] if path.startswith("api/") else body

    def now(self, expression: str) -> list[dict[str, Any]]:
        """The value of an expression: series, each with its labels and its value."""
        found: list[dict[str, Any]] = self.ask("api/v1/query", query=expression)["result"]
        return found

    def ever(self, expression: str, *, until: float, since: float | None = None) -> list[dict[str, Any]]:
        """Its values since then, or since Prometheus began, one a second."""
        start = self.began if since is None else since
        asked = self.ask("api/v1/query_range", query=expression, start=start, end=until, step=1)
        found: list[dict[str, Any]] = asked["result"]
        return found

    def firing(self) -> set[str]:
        """The alerts that fire now."""
        return {found["metric"]["alertname"] for found in self.now('ALERTS{alertstate="firing"}')}

    def fired(self) -> set[str]:
        """The alerts that fire now or did so since Prometheus began."""
        found = self.ever('ALERTS{alertstate="firing"}', until=time.time())
        return {series["metric"]["alertname"] for series in found}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _started(config: Path, port: int) -> subprocess.Popen[bytes]:
    command = [
        tool("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={config.parent / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (config.parent / "log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "GOMAXPROCS": "1"})


@asynccontextmanager
async def running(config: Path) -> AsyncIterator[Prometheus]:
    """Prometheus with this configuration, its data beside it, until the context ends."""
    prometheus = Prometheus(_free_port(), time.time())
    process = await asyncio.to_thread(_started, config, prometheus.port)
    try:
        try:
            await until(lambda: prometheus.ask("-/ready"), seconds=30, what="Prometheus")
        except TimeoutError:
            raise AssertionError((config.parent / "log").read_text()) from None
        yield prometheus
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 20)
