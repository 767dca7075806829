"""The cells of docs/EXAMPLES.md do what it says, from top to bottom."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.spark.waiting import settled
from tests.support.scene import SceneOf
from tests.support.traffic import connected, send

pytestmark = pytest.mark.timeout(400)

DONE = "the cell is done"
PAGE = Path(__file__).parent.parent.parent / "docs" / "EXAMPLES.md"
TAGS = ("new", "paid", "sent")


async def test_the_cells_run(
    session_of_pages: None, scene: SceneOf, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Those of the shell in processes of their own; each prints what stands below it."""
    page = PAGE.read_text("utf-8")
    cells = re.findall(r"```(sh|python)\n(.*?)```(?:\n```text\n(.*?)```)?", page, re.DOTALL)
    assert len(cells) + sum(bool(expected) for *_, expected in cells) == page.count("```") / 2 > 12
    notebook: dict[str, Any] = {}
    async with scene() as here:
        async with connected(here.source) as client:
            for queue_id in range(4):
                batch = [_order(number) for number in range(queue_id, 3000, 4)]
                await send(client, here.source.brokers[0].name, here.topic, queue_id, batch)
        await settled(here.source, here.topic, 3000)
        names = {
            "127.0.0.1:9876": here.source.namesrv,
            "127.0.0.1:9877": here.target.namesrv,
            "--topics orders": f"--topics {here.topic}",
            '"orders': f'"{here.topic}',
            '"archive"': repr(str(tmp_path / "archive")),
        }
        async with _shell(tmp_path, group=here.topic) as shell:
            for kind, cell, expected in cells:
                text = re.sub("|".join(map(re.escape, names)), lambda found: names[found[0]], cell)
                if "--complete" in cell:
                    await settled(here.target, here.topic, 3100)
                if kind == "sh":
                    printed = await _printed(shell, text)
                else:
                    capfd.readouterr()
                    exec(compile(text, str(PAGE), "exec"), notebook)
                    printed = capfd.readouterr().out
                assert expected in printed, (cell, printed)
            assert shell.stdin is not None
            shell.stdin.close()
            assert await shell.wait() == 0


def _order(number: int) -> tuple[bytes, dict[str, str]]:
    body = f'{{"order": {number}, "amount": {number % 10}}}'.encode()
    return body, {"KEYS": f"order-{number}", "TAGS": TAGS[number % 3], "UNIQ_KEY": f"U{number}"}


@asynccontextmanager
async def _shell(directory: Path, *, group: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """As that of a user, but for what tests that use the same clusters and machine would notice."""
    apart = {
        "REPLICATOR_WORKER_GROUP": group,
        "REPLICATOR_SYNC": "none",
        "REPLICATOR_REST__PORT": "0",
        "COLUMNS": "300",
    }
    path = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    process = await asyncio.create_subprocess_exec(
        *("bash", "-e"),
        cwd=directory,
        env={**os.environ, **apart, **path},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def _printed(shell: asyncio.subprocess.Process, cell: str) -> str:
    """What a cell prints; a command that fails ends the shell."""
    assert shell.stdin is not None
    assert shell.stdout is not None
    shell.stdin.write(f"{cell}\necho {DONE}\n".encode())
    lines: list[str] = []
    while (line := (await shell.stdout.readline()).decode()) != f"{DONE}\n":
        lines.append(line)
        assert line, "".join(lines)
    return "".join(lines)
