"""A replicator as its users run it: a process of its own, watched over HTTP, ended by signals."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any

from replicator.sandbox import Cluster
from tests.support.answers import check_answer
from tests.support.attempt import attempt
from tests.support.compatibility_record import tried
from tests.support.printed import check_printed

__all__ = ["SYNC_QUICKLY", "Worker", "command", "group_of_test", "signing", "until"]

#: Flags of a worker that looks at all metadata but accounts twice a second.
SYNC_QUICKLY = (
    *("--sync", "topics,groups,offsets", "--sync-offsets-interval", "0.5"),
    *("--sync-topics-interval", "0.5", "--sync-groups-interval", "0.5"),
)


def signing(side: str, access_key: str, secret_key: str) -> dict[str, str]:
    """The environment of a command that uses the `SOURCE` or `TARGET` in somebody's name."""
    return {f"REPLICATOR_{side}__ACCESS_KEY": access_key, f"REPLICATOR_{side}__SECRET_KEY": secret_key}


def command(given: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, with `given` added to the environment."""
    ended = subprocess.run(
        [sys.executable, "-m", "replicator", *arguments],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    check_printed(arguments, ended.stdout)
    return ended


async def until(condition: Callable[[], Any], *, seconds: float = 60.0, what: str = "condition") -> Any:
    """Waits until `condition` gives something true, and gives that."""
    value: Any = None
    try:
        async with asyncio.timeout(seconds):
            while True:
                begun = time.monotonic()
                try:
                    value = condition()
                    if asyncio.iscoroutine(value):
                        value = await value
                except (OSError, ValueError, LookupError, TypeError) as error:  # an answer of another kind, yet
                    value = error
                else:
                    if value:
                        return value
                # What takes long to find out is asked less often: it keeps others from making it true.
                await asyncio.sleep(min(max(0.05, time.monotonic() - begun), 0.3))
    except TimeoutError:
        raise TimeoutError(f"{what}: not within {seconds:g} s, last seen {value!r}") from None


def group_of_test() -> str:
    """The worker group of this attempt at a test."""
    return f"test-{zlib.crc32(os.environ['PYTEST_CURRENT_TEST'].rpartition(' ')[0].encode()):08x}{attempt()}"


#: What counts as copied, by whether that of others does too.
_COPIED = {False: "copied", True: "copied_in_all"}
#: Characters of a log that show the stacks of all threads.
_STACKS = 12_000


class Worker:
    """`replicator --source … --target …` with `flags`; its output is in `log`.

    Workers of one test are one group; those of different tests share clusters, but not a group.

    Unless `flags` say otherwise it looks for topics often and settles soon: only tests in which a process dies
    in mid-flow have requests left inside a broker. Metadata is synced only where a test is about that.
    """

    def __init__(
        self,
        source: Cluster | str,
        target: Cluster | str,
        directory: Path,
        *flags: str,
        environment: Mapping[str, str] | None = None,
        group: str = "",
        program: tuple[str, ...] = ("-m", "replicator"),
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.store = directory / "store"
        self.log_file = directory / "log"
        self.port = 0
        self._environment = {**os.environ, "PYTHONFAULTHANDLER": "1", **(environment or {})}
        self._arguments = [
            *(sys.executable, *program),
            *("--source", source if isinstance(source, str) else source.namesrv),
            *("--target", target if isinstance(target, str) else target.namesrv),
            *("--store-path", str(self.store), "--metadata-refresh-interval", "1", "--settle-timeout", "0.2"),
            *("--worker-group", group or group_of_test()),
            *(() if "--sync" in flags else ("--sync", "none")),
            *flags,
        ]
        self._clusters = source, target
        self._log_start = 0
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Worker:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return None if self._process is None else self._process.returncode

    async def start(self, *, ready: bool = True) -> None:
        """Starts the process; `ready` waits until it serves HTTP."""
        source, target = self._clusters
        if isinstance(source, Cluster) and isinstance(target, Cluster):
            tried(source.spec.version, target.spec.version)
        self.port = 0
        self._log_start = len(self.log) if self.log_file.exists() else 0
        with self.log_file.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._arguments, "--rest-port", "0", stderr=log, stdout=log, env=self._environment
            )
        if ready:
            await self.served()

    async def served(self) -> None:
        """Waits until it serves HTTP; else the error says what it was doing."""
        try:
            await until(self.is_up, what="the replicator's HTTP")
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{await self.stacks()}") from None

    def is_up(self) -> bool:
        """Whether it serves HTTP; where is known then."""
        assert self._process is not None
        if self._process.returncode is not None:
            raise AssertionError(f"the replicator ended with {self._process.returncode}:\n{self.log}")
        found = re.search(r"http://127.0.0.1:(\d+)/metrics", self.log[self._log_start :])
        self.port = int(found[1]) if found else 0
        return bool(self.port and self.get("/health/live"))

    async def wait(self) -> int:
        """Its exit code, once it ends."""
        assert self._process is not None
        return await asyncio.wait_for(self._process.wait(), 90)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    async def kill(self) -> None:
        """kill -9, if it still runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def stacks(self) -> str:
        """Ends it, if it still runs; the end of its log, which says what each thread was doing."""
        if self.exit_code is None:
            self.signal(signal.SIGABRT)
            self.signal(signal.SIGCONT)  # a paused process would not end
            await self.wait()
        return self.log[-_STACKS:]

    async def drain(self) -> int:
        """SIGTERM; gives the exit code."""
        self.signal(signal.SIGTERM)
        return await self.wait()

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    @property
    def events(self) -> list[dict[str, Any]]:
        """What it has logged, as JSON."""
        return [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]

    def get(self, path: str) -> Any:
        """A page of its HTTP server; JSON is parsed."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                raw: bytes = answer.read()
        except urllib.error.HTTPError as error:
            body = error.read()
            check_answer("GET", path, body, error.code)
            raise urllib.error.HTTPError(error.url, error.code, error.msg, error.hdrs, BytesIO(body)) from None
        if path == "/metrics":
            return raw.decode()
        check_answer("GET", path, raw)
        return json.loads(raw)

    def ask(self, method: str, path: str, body: Any = None, *, token: str = "") -> tuple[int, Any]:
        """Asks its REST something; the HTTP status, and what stands in the envelope."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {}),
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                status, raw = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, raw = error.code, error.read()
        check_answer(method, path, raw, status)
        page = json.loads(raw)
        assert page["status"] == status
        return status, page["body"]

    @property
    def running(self) -> list[str]:
        """The topics that it copies, all of whose queues run."""
        return [topic["topic"] for topic in self.get("/status")["topics"] if topic["state"] == "RUNNING"]

    async def set_rates(self, *, messages: int = 0, size: int = 0) -> None:
        """Changes its limits, per second; 0: no limit."""
        rates = {"rate_messages": messages, "rate_bytes": size}
        status, answer = await asyncio.to_thread(self.ask, "PUT", "/connectors/route/rates", rates)
        assert status == 200, answer

    def metric(self, name: str, *, topic: str = "") -> float:
        """The sum of all samples of a metric, or of those of one topic; `name` is without the prefix."""
        labels = rf'{{.*topic="{topic}".*}}' if topic else "(?:{.*})?"
        sample = re.compile(rf"^rocketmq_replicator_{name}{labels} (\S+)$", re.MULTILINE)
        return sum(float(value) for value in sample.findall(self.get("/metrics")))

    def topic(self, name: str) -> dict[str, Any]:
        """The status of one topic; empty while it is not copied."""
        found: list[dict[str, Any]] = [t for t in self.get("/status")["topics"] if t["topic"] == name]
        return found[0] if found else {}

    def queues(self, name: str) -> list[dict[str, Any]]:
        """The status of the queues of one topic."""
        return [queue for queue in self.get("/status/queues") if queue["topic"] == name]

    def has_copied(self, name: str, count: int, *, in_all: bool = False) -> bool:
        """Whether this process copied at least `count` messages of a topic.

        Args:
            in_all: also what others copied, and what was found at the target after its answer had been lost, as
                happens where a target broker is killed.
        """
        return bool(self.topic(name).get(_COPIED[in_all], 0) >= count)

    async def goes_on(self, name: str, count: int, *, seconds: float = 60.0) -> None:
        """Waits until this process has copied `count` messages more of a topic than now."""
        before = self.topic(name).get("copied", 0)
        await until(lambda: self.has_copied(name, before + count), seconds=seconds, what="it goes on")

    async def caught_up(self, name: str, copied: int, *, seconds: float = 60.0, in_all: bool = False) -> None:
        """Waits until the topic's queues run without lag and this process copied at least `copied` of them.

        Args:
            in_all: as of `has_copied`.
        """

        def done() -> bool:
            queues = self.queues(name)
            return (
                bool(queues)
                and all(q["state"] == "RUNNING" and q["position"] == q["max_offset"] for q in queues)
                and sum(q[_COPIED[in_all]] for q in queues) >= copied
            )

        try:
            await until(done, seconds=seconds, what=f"{name} caught up")
        except TimeoutError:
            raise AssertionError(f"{self.topic(name)}\n{self.queues(name)}\n{self.log[-3000:]}") from None
