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
from tests.client.peer import unused_port
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


def typed_in_a_disaster(page: str) -> list[str]:
    """The lines of the block in which east is killed."""
    (block,) = re.findall(r"^```\n(replicator sandbox kill .*?\n)```$", page, re.MULTILINE | re.DOTALL)
    return [re.sub(r"\s+#.*", "", line) for line in block.splitlines()]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with Terminal(tmp_path) as made:
        yield made
        made.type("replicator sandbox down")


def test_chinese_readers_type_the_same() -> None:
    chinese, english = CHINESE.read_text(encoding="utf-8"), PAGE.read_text(encoding="utf-8")
    assert typed(chinese) == typed(english)
    assert typed_in_a_disaster(chinese) == typed_in_a_disaster(english)


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


def test_a_rehearsed_disaster(terminal: Terminal) -> None:
    """East dies and comes back with its data; nobody loses a message on the way to west and back."""
    page = PAGE.read_text(encoding="utf-8")
    _, up, topic, produce, _, replicator, _, down = typed(page)
    ((source, target),) = re.findall(r"^replicator --source (\S+) --target (\S+)$", terminal.type(up), re.MULTILINE)
    terminal.names = {"--source 127.0.0.1:…": f"--source {source}", "--target 127.0.0.1:…": f"--target {target}"}
    terminal.type(topic)
    terminal.type(produce)
    terminal.begin(replicator)
    terminal.until("replicator sandbox topics", r"west +orders +4 +1000\b")
    terminal.type(typed_last(page)[0])
    asyncio.run(synced(target, "readers"))
    kill, failover, at_west, more, start, back, reverse, failback, at_east = typed_in_a_disaster(page)
    assert len(re.findall(r"\bended\b", terminal.type(kill))) == 2
    assert "copied up to offset 249" in terminal.type(failover, code=5)
    assert terminal.type(at_west).startswith("west-a/0 10 order-40 ")
    terminal.type(more)
    assert len(re.findall(r"\brunning\b", terminal.type(start))) == 2
    terminal.names = {
        "--source 127.0.0.1:…": f"--source {target}",
        "--target 127.0.0.1:…": f"--target {source}",
        "8083": str(unused_port()),
    }
    second = terminal.begin(back)
    terminal.until("replicator connectors list --url http://127.0.0.1:8083", "route +STOPPED")
    terminal.until(reverse, "connector route copies west to east now")
    terminal.until("replicator sandbox topics", r"east +orders +4 +1100\b")
    assert "connector route copies east to west now" in terminal.type(failback)
    assert second.poll() is None
    # Ten at east, ten at west, and on.
    assert terminal.type(at_east).startswith("east-a/0 20 order-80 ")
    terminal.type(down)


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
