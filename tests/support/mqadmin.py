"""RocketMQ's own `mqadmin`, as the administrator of a sandbox cluster."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from replicator.sandbox import Cluster, jars
from replicator.sandbox.java import environment, java

__all__ = ["mqadmin"]

_MAIN = "org.apache.rocketmq.tools.command.MQAdminStartup"


async def mqadmin(cluster: Cluster, *arguments: str) -> str:
    """What it prints. It ends with 0 whatever came of it, so what it did is to be looked at."""
    classpath = os.pathsep.join(map(str, await asyncio.to_thread(jars.ensure, cluster.spec.version)))
    with tempfile.TemporaryDirectory() as home:
        account = Path(home) / "conf" / "tools.yml"
        account.parent.mkdir()
        account.write_text(f"accessKey: {cluster.access_key}\nsecretKey: {cluster.secret_key}\n", encoding="utf-8")
        flags = (f"-Duser.home={home}", f"-Drocketmq.home.dir={home}", "-cp", classpath)
        process = await asyncio.create_subprocess_exec(
            *(str(java()), *flags, _MAIN, *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment(),
        )
        output, _ = await process.communicate()
    return output.decode(errors="replace")
