"""Several worker processes under one, as small children: signals, restarts, standstills, what systemd hears."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replicator.errors import StartupError
from replicator.exit_codes import ExitCode
from replicator.settings import Settings
from replicator.worker_processes import WorkerProcesses, own_flags, worker_command
from tests.support.worker import until

#: Writes what happens to a file; says that it is ready and alive, until it stands still or gets a signal.
CHILD = """
import os, signal, socket, sys, time
path, *does = sys.argv[1:]
def say(*words):
    with open(path, "a") as file:
        print(os.getpid(), *words, file=file)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
        to.sendto("\\n".join(words).encode(), os.environ["NOTIFY_SOCKET"])
def stop(number, _):
    say(signal.Signals(number).name)
    if "deaf" in does:
        return
    if "drains" in does:
        time.sleep(0.7)
        say("DRAINED")
    sys.exit(4 if "leaves" in does else 0)
signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)
if "refuses" in does:
    while not os.path.exists(does[-1]):
        time.sleep(0.01)
    sys.exit(3)
again = os.path.exists(path) and "READY" in open(path).read()
say("STATUS=waiting", "EXTEND_TIMEOUT_USEC=1")
if "waits" in does and again:
    time.sleep(2)
say("READY=1", "STATUS=replicating")
if "sleeps" in does and not again:
    time.sleep(60)
while True:
    time.sleep(0.05)
    say("WATCHDOG=1")
"""


class Children:
    """The files that some children write."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def command(self, number: int, *does: str) -> list[str]:
        """What starts a child."""
        return [sys.executable, "-S", "-c", CHILD, str(self._directory / str(number)), *does]

    def said(self, number: int) -> list[list[str]]:
        """The lines of a child, each begins with its pid."""
        path = self._directory / str(number)
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def pids(self, number: int) -> list[int]:
        """Of all its starts that became ready."""
        return [int(pid) for pid, *words in self.said(number) if "READY=1" in words]


@pytest.fixture
def children(tmp_path: Path) -> Children:
    return Children(tmp_path)


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """What systemd hears."""
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(address)
        channel.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        yield channel


def _heard(channel: socket.socket) -> list[str]:
    heard: list[str] = []
    try:
        while True:
            heard += channel.recv(4096).decode().splitlines()
    except BlockingIOError:
        return heard


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_all_run_until_a_signal(children: Children, told: socket.socket) -> None:
    """Which each gets once; the highest exit code is that of all, and systemd hears when all are ready."""
    running = asyncio.create_task(
        WorkerProcesses([children.command(1), children.command(2, "leaves")], silent=5.0).run()
    )
    heard: list[str] = []

    def ready() -> bool:
        heard.extend(_heard(told))
        return "READY=1" in heard and "WATCHDOG=1" in heard

    await until(ready)
    assert heard.count("READY=1") == 1
    assert "EXTEND_TIMEOUT_USEC=1" in heard
    assert "STATUS=2 worker processes" in heard
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 4
    for number in (1, 2):
        (pid,) = children.pids(number)
        assert [words for _, *words in children.said(number)].count(["SIGTERM"]) == 1
        assert not _lives(pid)
    assert "STOPPING=1" in _heard(told)


async def test_what_has_ended_or_stands_still_is_started_again(children: Children, told: socket.socket) -> None:
    """The others run on."""
    commands = [children.command(1), children.command(2), children.command(3, "sleeps")]
    running = asyncio.create_task(WorkerProcesses(commands, silent=1.0, pause=0.1).run())
    await until(lambda: all(children.pids(number) for number in (1, 2, 3)))
    os.kill(children.pids(2)[0], signal.SIGKILL)
    await until(lambda: len(children.pids(2)) == len(children.pids(3)) == 2)
    assert len(children.pids(1)) == 1
    assert not _lives(children.pids(3)[0])
    os.kill(os.getpid(), signal.SIGINT)
    assert await running == 0
    assert [words for _, *words in children.said(1)][-1] == ["SIGINT"]


async def test_one_that_cannot_start_ends_all(children: Children, tmp_path: Path) -> None:
    """Fewer than were asked for would not be noticed; it has said itself why, and its exit code is that of all."""
    commands = [
        children.command(1),
        children.command(2, "refuses", str(tmp_path / "now")),
        children.command(3, "deaf"),
    ]
    running = asyncio.create_task(WorkerProcesses(commands, patience=0.5).run())
    await until(lambda: children.pids(1) and children.pids(3))
    (tmp_path / "now").touch()
    assert await running == 3
    assert not any(_lives(pid) for number in (1, 3) for pid in children.pids(number))


async def test_where_one_cannot_start_the_others_drain(children: Children, tmp_path: Path) -> None:
    """They may have copied for a while."""
    commands = [children.command(1, "drains"), children.command(2, "refuses", str(tmp_path / "now"))]
    running = asyncio.create_task(WorkerProcesses(commands, patience=0.1, drain=30.0).run())
    await until(lambda: children.pids(1))
    (tmp_path / "now").touch()
    assert await running == 3
    assert [words for _, *words in children.said(1)][-1] == ["DRAINED"]


async def test_a_start_that_fails_once_is_tried_again(children: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the machine has no memory for a moment: the others run on."""
    real, failing = asyncio.create_subprocess_exec, [False]

    async def create(*command: str, **how: Any) -> asyncio.subprocess.Process:
        if failing[0]:
            failing[0] = False
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return await real(*command, **how)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", create)
    running = asyncio.create_task(WorkerProcesses([children.command(1), children.command(2)], pause=0.1).run())
    await until(lambda: children.pids(1) and children.pids(2))
    failing[0] = True
    os.kill(children.pids(2)[0], signal.SIGKILL)
    await until(lambda: running.done() or len(children.pids(2)) == 2)
    assert (failing[0], len(children.pids(1)), running.done()) == (False, 1, False)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 0


async def test_a_first_start_that_fails_ends_all(children: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exit code says that something cannot be used."""

    async def create(*_: str, **__: Any) -> asyncio.subprocess.Process:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", create)
    assert await WorkerProcesses([children.command(1), children.command(2)]).run() == ExitCode.UNUSABLE


async def test_one_that_does_not_end(children: Children) -> None:
    """A second signal gives it some seconds."""
    running = asyncio.create_task(WorkerProcesses([children.command(1, "deaf")], patience=0.5).run())
    await until(lambda: children.pids(1))
    os.kill(os.getpid(), signal.SIGTERM)
    await until(lambda: ["SIGTERM"] in [words for _, *words in children.said(1)])
    assert not running.done()
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 128 + signal.SIGTERM
    assert not _lives(children.pids(1)[0])


@pytest.mark.parametrize("ending", ["signals", "start"])
async def test_signals_while_it_ends_them(children: Children, tmp_path: Path, ending: str) -> None:
    """However many there are, none of the others is left behind."""
    commands = [children.command(1, "deaf"), children.command(2, "refuses", str(tmp_path / "now"))]
    running = asyncio.create_task(WorkerProcesses(commands[: 1 + (ending == "start")], patience=1.0).run())
    await until(lambda: children.pids(1))
    if ending == "start":
        (tmp_path / "now").touch()
        await until(lambda: ["SIGTERM"] in [words for _, *words in children.said(1)])
    for _ in range(4):
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0.05)
    assert await running == (3 if ending == "start" else 128 + signal.SIGINT)
    assert not _lives(children.pids(1)[0])


@pytest.mark.parametrize("place", ["d" * 200, "none"])
async def test_a_place_that_takes_no_sockets(
    children: Children, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told by its name, before anything is started."""
    if place != "none":
        (tmp_path / place).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / place))
    monkeypatch.setenv("TMPDIR", str(tmp_path / place))
    with pytest.raises(StartupError, match=f"TMPDIR = .*{place}' cannot take the sockets") as caught:
        await WorkerProcesses([children.command(1)]).run()
    assert caught.value.hint == "name a directory with a short path that this user can write"
    assert not children.said(1)
    assert not any(files for _, _, files in os.walk(tmp_path))


def test_no_module_comes_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is anybody's, as where a service is started in /tmp."""
    (tmp_path / "typer.py").write_text("raise SystemExit(99)")
    monkeypatch.setattr(sys, "argv", ["replicator", "version"])
    monkeypatch.chdir(tmp_path)
    assert subprocess.run(worker_command(), check=False, capture_output=True).returncode == 0


async def test_a_signal_before_all_run(children: Children) -> None:
    """It reaches those that are being started, and no other is."""
    running = asyncio.create_task(WorkerProcesses([children.command(number) for number in (1, 2, 3)]).run())
    await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 0
    assert not any(children.pids(number) for number in (1, 2, 3))


async def test_one_that_starts_again_may_take_long(children: Children) -> None:
    """It says that it waits, and is not killed for saying nothing else."""
    running = asyncio.create_task(WorkerProcesses([children.command(1, "waits")], silent=0.5, pause=0.1).run())
    await until(lambda: children.pids(1))
    os.kill(children.pids(1)[0], signal.SIGKILL)
    await until(lambda: len(children.pids(1)) == 2)
    assert len({pid for pid, *_ in children.said(1)}) == 2
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends processes with their parent")
async def test_none_is_left_behind(children: Children) -> None:
    """Where the first process is killed, the others stop as at SIGTERM."""
    code = (
        "import asyncio, sys; from replicator.worker_processes import WorkerProcesses;"
        " asyncio.run(WorkerProcesses([sys.argv[1:]]).run())"
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", code, *children.command(1))
    await until(lambda: children.pids(1))
    (pid,) = children.pids(1)
    parent.kill()
    await parent.wait()
    await until(lambda: not _lives(pid))


def test_what_each_has_to_itself() -> None:
    """The first one has what a single worker has."""
    ends = {"source": {"namesrv": "a:9876"}, "target": {"namesrv": "b:9876"}}
    several = Settings(**ends, workers=3, store_path="state/here", worker_id="w")  # type: ignore[arg-type]
    port = several.rest.port
    assert own_flags(several, 1) == [
        *("--workers", "1", "--store-path", "state/here"),
        *("--rest-port", str(port), "--worker-id", "w-1"),
    ]
    there = str(Path("state/here-3").absolute())
    assert own_flags(several, 3)[3:] == [there, "--rest-port", str(port + 2), "--worker-id", "w-3"]
    any_port = Settings(**ends, workers=2, rest={"port": 0})  # type: ignore[arg-type]
    assert own_flags(any_port, 2)[-2:] == ["--rest-port", "0"]
