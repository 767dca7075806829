"""What docs/FIRST_STEPS.md says to type in the first five minutes, typed."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator.client.cluster import Cluster
from replicator.client.offsets import read_offsets
from tests.client.peer import unused_port

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(300)]

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE, CHINESE = DOCS / "FIRST_STEPS.md", DOCS / "zh" / "first-steps.md"
#: As the installed program is called, whatever is on the path.
PROGRAM = [sys.executable, "-m", "replicator"]
_SECONDS = 60.0


def typed(page: str) -> list[str]:
    """The lines of the block that begins with the installation of the sandbox, without comments."""
    (block,) = re.findall(r"^```\n(pip install '\.\[sandbox\]'\n.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [re.sub(r"\s+#.*", "", line) for line in block.splitlines()]


def typed_last(page: str) -> list[str]:
    """The lines of the block after that one, which switches to the target."""
    begin = "replicator sandbox consume orders --cluster east"
    (block,) = re.findall(rf"^```\n({begin}.*?\n)```$", page, re.MULTILINE | re.DOTALL)
    return [re.sub(r"\s+#.*", "", line) for line in block.splitlines()]


class Terminal:
    """A user's shell in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = str(unused_port())
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("REPLICATOR_")},
            "XDG_STATE_HOME": str(directory / "state"),
            "COLUMNS": "200",
            "REPLICATOR_URL": f"http://127.0.0.1:{self._port}",
        }
        self.addresses: tuple[str, str] = ("", "")

    def words(self, line: str) -> list[str]:
        """`line` with the addresses that `sandbox up` has printed."""
        source, target = (f"--{side} {at}" for side, at in zip(("source", "target"), self.addresses, strict=True))
        line = line.replace("--source 127.0.0.1:…", source).replace("--target 127.0.0.1:…", target)
        program, *words = shlex.split(line)
        assert program == "replicator"
        return [*PROGRAM, *words]

    def type(self, line: str, *, code: int = 0) -> str:
        ended = subprocess.run(
            self.words(line),
            capture_output=True,
            text=True,
            check=False,
            cwd=self._directory,
            env=self.environment,
            timeout=_SECONDS * 2,
        )
        assert ended.returncode == code, (line, ended.stdout, ended.stderr)
        return ended.stdout

    def begin(self, line: str) -> subprocess.Popen[bytes]:
        """Starts it in another terminal."""
        with (self._directory / "log").open("wb") as log:
            return subprocess.Popen(
                [*self.words(line), "--rest-port", self._port],
                cwd=self._directory,
                env=self.environment,
                stderr=log,
            )


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path)
    yield made
    made.type("replicator sandbox down")


def test_chinese_readers_type_the_same() -> None:
    assert typed(CHINESE.read_text(encoding="utf-8")) == typed(PAGE.read_text(encoding="utf-8"))


def test_the_first_five_minutes(terminal: Terminal) -> None:
    """Each line does what its comment says; a group that has read on at east goes on at west."""
    _, up, topic, produce, doctor, replicator, consume, down = typed(PAGE.read_text(encoding="utf-8"))
    (terminal.addresses,) = re.findall(
        r"^replicator --source (\S+) --target (\S+)$", terminal.type(up), re.MULTILINE
    )
    assert "east has topic orders" in terminal.type(topic)
    assert "Sent 1,000 messages to orders at east" in terminal.type(produce)
    assert "0 errors" in terminal.type(doctor)
    running = terminal.begin(replicator)
    try:
        until(terminal, "replicator sandbox topics", r"west +│ orders +│ 4 +│ 1,000 ")
        lines = terminal.type(consume).splitlines()
        assert len(lines) == 5
        assert lines[0].startswith('west-a/0 0 order-0 {"order": 0} (copied from east/east-a/0/0/')
        at_east, readiness, failover, at_west = typed_last(PAGE.read_text(encoding="utf-8"))
        first = terminal.type(at_east).splitlines()
        assert [line.split()[0:2] for line in first] == [["east-a/0", str(offset)] for offset in range(10)]
        # As long as its offset has not come, it would begin with the first message, and commit that.
        asyncio.run(synced(terminal.addresses[1], "readers"))
        assert "ready to switch" in terminal.type(readiness)
        assert "all that the source had is at the target" in terminal.type(failover)
        assert terminal.type(at_west).startswith("west-a/0 10 order-40 ")
        running.send_signal(signal.SIGINT)
        assert running.wait(_SECONDS) == 0
    finally:
        running.kill()
        running.wait()
    assert "Ended east, west." in terminal.type(down)


def until(terminal: Terminal, line: str, pattern: str) -> None:
    """Types `line` again and again until it prints that."""
    deadline = time.monotonic() + _SECONDS
    while not re.search(pattern, shown := terminal.type(line)):
        assert time.monotonic() < deadline, shown
        time.sleep(0.5)


async def synced(namesrv: str, group: str) -> None:
    """Waits until the group has an offset in the first queue there."""
    client = Cluster([namesrv])
    try:
        await client.refresh()
        deadline = time.monotonic() + _SECONDS
        while (group, "orders") not in (await read_offsets(client.master("west-a"))).offsets:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.2)
    finally:
        await client.close()
