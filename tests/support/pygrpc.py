"""The official gRPC client for Python as a witness, a simple consumer, in an environment of its own.

Its module has the name of the older client's, `rocketmq`, and brings packages that nothing else here needs.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from replicator.sandbox.jars import cache_directory
from tests.support.grpctool import Got

__all__ = ["python_consume"]

_PACKAGE = "rocketmq-python-client==5.1.2"
_PROGRAM = Path(__file__).parent / "pygrpc_consumer.py"
_SECONDS = 120.0


def _installed() -> Path:
    """The directory in which the client and what it needs are installed, once."""
    root = cache_directory().parent / "python"
    root.mkdir(parents=True, exist_ok=True)
    found = root / _PACKAGE
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.exists():
            made = root / "work"
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(made), _PACKAGE]
            subprocess.run(pip, check=True)
            made.rename(found)
    return found


async def python_consume(
    proxy: str, topic: str, group: str, directory: Path, *, count: int = 0, hold: Collection[str] = ()
) -> list[Got]:
    """Receives `count` messages, or until none came for some seconds, and acknowledges all but those of `hold`.

    Its log goes to `directory`.
    """
    place = await asyncio.to_thread(_installed)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(_PROGRAM), proxy, topic, group, str(count), ",".join(hold)),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(place), "HOME": str(directory)},
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), _SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode == 0
    found = map(json.loads, output.decode().splitlines())
    return [Got(each["body"], each["attempt"], each["group"], each["acknowledged"]) for each in found]
