"""Commands over the REST of a worker."""

from __future__ import annotations

import asyncio

from typer.testing import CliRunner

from replicator.cli import app
from tests.support.printed import check_printed
from tests.support.worker import Worker

__all__ = ["run"]


async def run(worker: Worker, *arguments: str) -> str:
    """What a command prints; it must succeed. In this process, since one of its own takes a second to start."""
    environment = {"REPLICATOR_URL": f"http://127.0.0.1:{worker.port}", "COLUMNS": "200"}
    ended = await asyncio.to_thread(CliRunner().invoke, app, arguments, env=environment)
    assert ended.exit_code == 0, (ended.output, ended.exception)
    check_printed(arguments, ended.stdout)
    return ended.stdout
