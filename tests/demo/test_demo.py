"""The demo as its users run it: a process that ends by itself or by Ctrl-C, with a summary, and leaves nothing."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest

from replicator.sandbox import jars
from replicator.sandbox.process import ProcessId
from tests.support.printed import check_printed

pytestmark = [pytest.mark.brokers, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

_END_SECONDS = 300.0
#: The version that starts soonest, for what is the same with all.
QUICK = ("--version", "4.9.7")


class Demo:
    """`replicator demo`, and all processes and the directory that it was ever seen with."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self._process = process
        self._output = output
        self._seen: set[ProcessId] = set()
        self._directories: set[Path] = set()
        self._replicator: ProcessId | None = None

    @property
    def output(self) -> str:
        """As plain text, whatever a terminal is told beside it."""
        text = self._output.read_text(errors="replace").replace("\r\n", "\n")
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)

    async def says(self, pattern: str) -> None:
        """Waits until it has printed that."""
        async with asyncio.timeout(_END_SECONDS):
            while not re.search(pattern, self.output):
                assert self._check() is None, self.output
                await asyncio.sleep(0.2)
        self._check()

    async def ended(self) -> int:
        """Its exit code."""
        async with asyncio.timeout(_END_SECONDS):
            while True:
                if (code := self._check()) is not None:
                    return code
                await asyncio.sleep(0.2)

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def hang_replicator(self) -> None:
        assert self._replicator is not None
        self._replicator.signal(signal.SIGSTOP)

    async def assert_nothing_left(self) -> None:
        # Name servers and brokers, the replicator, producer and consumer.
        assert len(self._seen) >= 7, self.output
        assert [each for each in self._seen if not await each.ended(seconds=5)] == []
        assert self._directories
        assert [each for each in self._directories if each.exists()] == []

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _check(self) -> int | None:
        """Whether it has ended; notes its descendants."""
        parents: dict[int, list[int]] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(stat.read_text().rpartition(")")[2].split()[1])
            except OSError:  # it has just ended
                continue
            parents.setdefault(parent, []).append(int(stat.parent.name))
        found = [self._process.pid]
        for pid in found:
            found += parents.get(pid, [])
        for pid in found[1:]:
            try:
                command = Path(f"/proc/{pid}/cmdline").read_text()
            except OSError:
                continue
            self._seen.add(each := ProcessId.of(pid))
            if "--store-path" in command:
                self._replicator = each
            for part in re.split(r"[\0=]", command):  # a pattern for the whole takes seconds for a long class path
                before, mark, after = part.partition("/replicator-demo-")
                if mark:
                    self._directories.add(Path(before + mark + after.partition("/")[0]))
        return self._process.poll()


@contextmanager
def terminal(output: Path) -> Iterator[int]:
    """The end of a terminal that a program is started in; what it shows goes to a file."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 0, 0))

    def take() -> None:
        with output.open("wb", buffering=0) as file, suppress(OSError):  # EIO: nobody has the other end any more
            while data := os.read(ours, 65536):
                file.write(data)

    taking = threading.Thread(target=take)
    taking.start()
    try:
        yield theirs
    finally:
        os.close(theirs)
        taking.join()
        os.close(ours)


@asynccontextmanager
async def running(
    directory: Path, *flags: str, environment: Mapping[str, str] | None = None, in_terminal: bool = False
) -> AsyncIterator[Demo]:
    output = directory / "output"
    output.touch()
    with terminal(output) if in_terminal else output.open("wb") as file:
        process = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
            [sys.executable, "-m", "replicator", "demo", *flags],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        demo = Demo(process, output)
        try:
            yield demo
        finally:
            demo.kill()


def assert_clean(output: str) -> None:
    counts = re.search(r"produced (\d+), copied (\d+), lost 0, duplicated 0, out of order 0, changed 0", output)
    seen = re.search(r"(\d+) seen by the consumer on west\n", output)
    assert counts is not None, output
    assert seen is not None, output
    assert int(counts[1]) == int(counts[2]) == int(seen[1]) > 0, output


def assert_steps(output: str) -> None:
    """What the demo does until orders flow is said, each step once, with its time."""
    told = re.findall(r"^ *(\d+\.\d) s  (.+)$", output, re.MULTILINE)
    assert [float(seconds) for seconds, _ in told] == sorted(float(seconds) for seconds, _ in told)
    steps = [step for _, step in told]
    for beginning in (
        "Java and RocketMQ",
        "starting two clusters",
        "name server east-namesrv answers at",
        "name server west-namesrv answers at",
        "master east-a answers at",
        "master west-a answers at",
        "topic orders is created",
        "the replicator copies it",
        "the producer sends orders to east",
        "reading the topic whole",
    ):
        assert len([step for step in steps if step.startswith(beginning)]) == 1, output


async def test_it_ends_by_itself_with_a_summary(tmp_path: Path) -> None:
    """And the same as JSON for scripts."""
    flags = ("--seconds", "8", "--version", "5.5.0", "-o", "json")
    async with running(tmp_path, *flags) as demo:
        assert await demo.ended() == 0, demo.output
        verdict = demo.output[demo.output.rindex("{") :]
        check_printed(("demo", *flags), verdict)
        assert json.loads(verdict)["clean"]
        assert "two clusters of RocketMQ 5.5.0" in demo.output
        assert_clean(demo.output)
        assert re.search(r"metrics at http://127\.0\.0\.1:\d+/metrics", demo.output)
        assert re.search(r"page http://127\.0\.0\.1:\d+/, open it while the demo runs", demo.output)
        assert_steps(demo.output)
        await demo.assert_nothing_left()


async def test_an_interrupt_drains(tmp_path: Path) -> None:
    async with running(tmp_path, *QUICK) as demo:
        await demo.says(r"latest order-0*[1-9]")
        demo.interrupt()
        assert await demo.ended() == 0, demo.output
        assert_clean(demo.output)
        await demo.assert_nothing_left()


async def test_a_terminal_gets_a_live_view(tmp_path: Path) -> None:
    """Figures and the newest orders, drawn again and again in place, without a line that is too long."""
    plain = {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "30"}
    async with running(tmp_path, "--version", "4.9.7", environment=plain, in_terminal=True) as demo:
        await demo.says(r"replicator demo · RocketMQ 4\.9\.7 · 0:\d\d")
        await demo.says(r"│ +orders +RUNNING +[1-9][\d,]* +[1-9][\d,]* +[\d,]+ +\d+\.\d ")
        await demo.says(r"Orders as the consumer on west gets them: [1-9][\d,]* of [1-9][\d,]* produced")
        await demo.says(r"│ +\d+ +order-0*[1-9]\d* +\w+ +\S+ +\w.* +\d+ +[\d,]+\.\d\d +│")
        await demo.says(r"Ctrl-C drains and ends everything")
        await demo.says(r"│ +page +http://127\.0\.0\.1:\d+/, open it while the demo runs +│")
        demo.interrupt()
        await demo.says(r"Draining")
        assert await demo.ended() == 0, demo.output
        assert_clean(demo.output)
        assert {len(line) for line in demo.output.splitlines() if line.startswith("│")} == {80}
        await demo.assert_nothing_left()


async def test_a_second_interrupt_ends_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, *QUICK) as demo:
        await demo.says(r"latest order-0*[1-9]")
        demo.hang_replicator()  # or it might all be over before the second signal
        demo.interrupt()
        await demo.says(r"Draining")
        demo.interrupt()
        assert await demo.ended() == 128 + signal.SIGINT, demo.output
        assert "Summary" not in demo.output
        await demo.assert_nothing_left()


async def test_without_the_independent_client_our_own_is_used(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (cache / "rocketmq-replicator").mkdir(parents=True)
    jars.ensure("5.3.3")
    (cache / "rocketmq-replicator" / "jars").symlink_to(jars.cache_directory())
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
    environment = {"XDG_CACHE_HOME": str(cache), **offline}
    async with running(tmp_path, "--seconds", "3", environment=environment) as demo:
        assert await demo.ended() == 0, demo.output
        assert "rocketmq-client-python cannot be used here" in demo.output
        assert_clean(demo.output)


async def test_a_version_that_does_not_exist(tmp_path: Path) -> None:
    async with running(tmp_path, "--version", "3.2.6") as demo:
        assert await demo.ended() == 78
        assert demo.output.startswith("replicator: version '3.2.6' is not in the sandbox")
