"""A real Prometheus for tests: Debian's package, unpacked into the user's cache, run on loopback."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from replicator.sandbox.jars import cache_directory
from tests.support.worker import until

__all__ = ["Prometheus", "check_page", "running", "tool"]

_PACKAGE = "prometheus"


def tool(name: str) -> str:
    """`prometheus` or `promtool`: what is installed, else from Debian's package, which is fetched once.

    Raises:
        AssertionError: there is none, and none can be had.
    """
    installed = shutil.which(name)
    if installed:
        return installed
    root = cache_directory().parent / _PACKAGE
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / "usr").exists():
            _unpack(root)
    return str(root / "usr" / "bin" / name)


def check_page(page: str) -> None:
    """Has promtool look at a page of metrics.

    Raises:
        AssertionError: what it finds.
    """
    command = [tool("promtool"), "check", "metrics"]
    checked = subprocess.run(command, input=page, capture_output=True, text=True, timeout=20, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def _unpack(root: Path) -> None:
    """Fetches the package as apt does, but needs no root: where apt has no lists, with lists of our own."""
    work = root / "work"
    shutil.rmtree(work, ignore_errors=True)
    for each in ("lists/partial", "cache/archives/partial", "package"):
        (work / each).mkdir(parents=True)
    own = ("-o", f"Dir::State::Lists={work}/lists", "-o", f"Dir::Cache={work}/cache")
    said = _run(work, "apt-get", "download", _PACKAGE)
    if not list(work.glob("*.deb")):
        said += _run(work, "apt-get", *own, "update") + _run(work, "apt-get", *own, "download", _PACKAGE)
    found = list(work.glob("*.deb"))
    assert found, f"install Prometheus: it is not on the PATH, and apt-get cannot fetch its package:\n{said}"
    said = _run(work, "dpkg-deb", "-x", str(found[0]), str(work / "package"))
    assert (work / "package/usr/bin/promtool").exists(), said
    (work / "package/usr").rename(root / "usr")
    shutil.rmtree(work)


def _run(directory: Path, *command: str) -> str:
    try:
        ended = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=200, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}\n"
    return ended.stdout + ended.stderr


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

    def ever(self, expression: str, *, until: float) -> list[dict[str, Any]]:
        """Its values since Prometheus began, one a second."""
        asked = self.ask("api/v1/query_range", query=expression, start=self.began, end=until, step=1)
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
