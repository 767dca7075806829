"""What docs/FIRST_STEPS.md says to type in the first five minutes, typed."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator.client.cluster import Cluster
from replicator.client.offsets import read_offsets
from tests.support.terminal import Terminal

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(300)]

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE, CHINESE = DOCS / "FIRST_STEPS.md", DOCS / "zh" / "first-steps.md"
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


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with Terminal(tmp_path) as made:
        yield made
        made.type("replicator sandbox down")


def test_chinese_readers_type_the_same() -> None:
    assert typed(CHINESE.read_text(encoding="utf-8")) == typed(PAGE.read_text(encoding="utf-8"))


def test_the_first_five_minutes(terminal: Terminal) -> None:
    """Each line does what its comment says; a group that has read on at east goes on at west."""
    _, up, topic, produce, doctor, replicator, consume, down = typed(PAGE.read_text(encoding="utf-8"))
    ((source, target),) = re.findall(r"^replicator --source (\S+) --target (\S+)$", terminal.type(up), re.MULTILINE)
    terminal.names = {"--source 127.0.0.1:…": f"--source {source}", "--target 127.0.0.1:…": f"--target {target}"}
    assert "east has topic orders" in terminal.type(topic)
    assert "Sent 1,000 messages to orders at east" in terminal.type(produce)
    assert "0 errors" in terminal.type(doctor)
    running = terminal.begin(replicator)
    terminal.until("replicator sandbox topics", r"west +orders +4 +1000\b")
    lines = terminal.type(consume).splitlines()
    assert len(lines) == 5
    assert lines[0].startswith('west-a/0 0 order-0 {"order": 0} (copied from east/east-a/0/0/')
    at_east, readiness, failover, at_west = typed_last(PAGE.read_text(encoding="utf-8"))
    first = terminal.type(at_east).splitlines()
    assert [line.split()[0:2] for line in first] == [["east-a/0", str(offset)] for offset in range(10)]
    # As long as its offset has not come, it would begin with the first message, and commit that.
    asyncio.run(synced(target, "readers"))
    assert "ready to switch" in terminal.type(readiness)
    assert "all that the source had is at the target" in terminal.type(failover)
    assert terminal.type(at_west).startswith("west-a/0 10 order-40 ")
    running.send_signal(signal.SIGINT)
    assert running.wait(_SECONDS) == 0
    assert "Ended east, west." in terminal.type(down)


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
