"""Scrapes of a worker's /metrics, as by Prometheus."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from bench.process import Measured

_PAUSE = 1.0
#: Seconds between attempts while it does not serve yet.
_SOON = 0.1


@dataclass(frozen=True, slots=True)
class Scrape:
    """One answer: seconds until it was complete, and what it said."""

    seconds: float
    text: str

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.text.encode())

    def total(self, name: str, *labels: str) -> float:
        """The sum of the series `rocketmq_replicator_<name>` that have all of `labels`, as `name="value"`."""
        lines = [line for line in self.text.splitlines() if line.startswith(f"rocketmq_replicator_{name}{{")]
        return sum(float(line.rpartition(" ")[2]) for line in lines if all(label in line for label in labels))


async def scrape(process: Measured) -> Scrape | None:
    """None while the worker does not serve."""
    url = next((url for line in process.printed() if (url := _url(line))), None)
    if url is None:
        return None
    begun = time.monotonic()
    page = await asyncio.to_thread(_get, url)
    return Scrape(time.monotonic() - begun, page.decode())


def _url(line: str) -> str | None:
    try:
        found = json.loads(line).get("metrics")
    except (ValueError, AttributeError):
        return None
    return str(found) if found else None


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return bytes(answer.read())


@asynccontextmanager
async def scraped(process: Measured, *, often: bool) -> AsyncIterator[None]:
    """Scrapes once, since a worker loads its HTTP application then; every second if `often`."""

    async def ask() -> None:
        found: Scrape | None = None
        while often or found is None:
            with suppress(OSError):
                found = await scrape(process)
            await asyncio.sleep(_PAUSE if found else _SOON)

    running = asyncio.create_task(ask())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait([running])
