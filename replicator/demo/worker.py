"""The replicator as its users run it: a separate process, watched over HTTP, ended by SIGTERM."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import signal
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from replicator.demo.child import Child
from replicator.demo.orders import TOPIC

__all__ = ["TopicFigures", "Worker"]

#: Seconds until it copies: a worker needs a few, and far longer beside brokers that start on a busy machine.
_START_SECONDS: Final = 60.0
#: Seconds to copy the rest, and to end after SIGTERM: more than the 30 that a worker itself drains.
_DRAIN_SECONDS: Final = 60.0
#: Seconds to wait for an answer over REST; what is shown then stays as it was until the next one.
_HTTP_SECONDS: Final = 2.0
#: Seconds over which a rate is averaged.
_RATE_WINDOW: Final = 3.0


@dataclass(slots=True)
class TopicFigures:
    """One topic, as reported by `/status`."""

    topic: str
    state: str
    reason: str
    copied: int
    rate: float
    lag_messages: int
    lag_seconds: float


@dataclass(slots=True)
class _Rate:
    samples: deque[tuple[float, int]] = field(default_factory=deque)

    def add(self, copied: int) -> float:
        now = time.monotonic()
        self.samples.append((now, copied))
        while now - self.samples[0][0] > _RATE_WINDOW:
            self.samples.popleft()
        (begin, first), (end, last) = self.samples[0], self.samples[-1]
        return (last - first) / (end - begin) if end > begin else 0.0


class Worker:
    """`replicator --source … --target … --topics orders`; `topics` are the figures of the last `poll`."""

    def __init__(self, source: str, target: str, *, directory: Path) -> None:
        self._log = directory / "replicator.log"
        # Settings in the user's environment are for the user's own clusters.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("REPLICATOR_")}
        self._child = Child(
            *("replicator", "--source", source, "--target", target, "--topics", TOPIC),
            *("--store-path", str(directory / "store"), "--rest-port", "0", "--metadata-refresh-interval", "1"),
            log=self._log,
            environment=environment,
        )
        self._rates: dict[str, _Rate] = {}
        self.address = ""
        self.topics: list[TopicFigures] = []

    @property
    def page(self) -> str:
        """The URL of the page for people."""
        return f"http://{self.address}/"

    @property
    def metrics(self) -> str:
        """The URL that Prometheus would scrape."""
        return f"http://{self.address}/metrics"

    @asynccontextmanager
    async def started(self) -> AsyncIterator[Worker]:
        """The process, once it copies the topic.

        Raises:
            DemoError: it did not start to copy.
        """
        async with self._child:
            deadline = time.monotonic() + _START_SECONDS
            while not (self.topics and all(topic.state == "RUNNING" for topic in self.topics)):
                if time.monotonic() > deadline:
                    raise self._child.failure(f"the replicator copies nothing after {_START_SECONDS:g} s")
                await asyncio.sleep(0.1)
                await self.poll()
            yield self

    async def poll(self) -> None:
        """Requests its status.

        Raises:
            DemoError: it has ended.
        """
        if self._child.exit_code is not None:
            raise self._child.failure(f"the replicator ended with code {self._child.exit_code}")
        if not self.address:
            found = re.search(r"http://([^/\s]+)/metrics", self._log.read_text(errors="replace"))
            if found is None:
                return
            self.address = found[1]
        try:
            status = await asyncio.to_thread(_get, self.address, "/status")
        except (OSError, ValueError, http.client.HTTPException):
            return  # it does not answer yet, or has just ended; then the next call raises
        # Beside it there are those of messages that wait, of which there are none.
        self.topics = [self._figures(topic) for topic in status["topics"] if topic["topic"] == TOPIC]

    def _figures(self, topic: dict[str, Any]) -> TopicFigures:
        names = ("topic", "state", "reason", "copied", "lag_messages", "lag_seconds")
        rate = self._rates.setdefault(topic["topic"], _Rate()).add(topic["copied"])
        return TopicFigures(**{name: topic[name] for name in names}, rate=rate)

    async def caught_up(self, copied: int) -> bool:
        """Waits until the topic has no lag and at least `copied` messages are copied; False: not in time."""
        deadline = time.monotonic() + _DRAIN_SECONDS
        while any(topic.lag_messages or topic.copied < copied for topic in self.topics):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.1)
        return True

    async def drain(self) -> None:
        """Ends it with SIGTERM.

        Raises:
            DemoError: it did not end with 0.
        """
        self._child.signal(signal.SIGTERM)
        code = await self._child.ended(seconds=_DRAIN_SECONDS)
        if code != 0:
            raise self._child.failure(f"the replicator ended with code {code} after SIGTERM")


def _get(address: str, path: str) -> Any:
    # Not urllib: it would use a proxy from the environment.
    connection = http.client.HTTPConnection(address, timeout=_HTTP_SECONDS)
    try:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()
