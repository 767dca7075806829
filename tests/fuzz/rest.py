"""Schemathesis against the REST of a worker that copies between two real clusters.

It makes requests of all that the OpenAPI document describes, right ones and wrong ones, in any order. No answer may
be a server error, or of another form than promised, and the worker must go on.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from replicator.sandbox import Cluster, ClusterSpec
from tests.support.traffic import create_topic, produce
from tests.support.worker import Worker, until

__all__ = ["fuzz_rest"]

_CHECKS = "not_a_server_error,content_type_conformance,response_schema_conformance,status_code_conformance"


async def fuzz_rest(seconds: int, directory: Path) -> tuple[bool, str]:
    """Whether nothing was found, and what schemathesis says."""
    with tempfile.TemporaryDirectory() as place:
        source = Cluster(ClusterSpec(name="east", version="5.3.3"), directory=Path(place, "east"))
        target = Cluster(ClusterSpec(name="west", version="5.3.3"), directory=Path(place, "west"))
        async with source, target:
            await create_topic(source, "orders", queues=4)
            await produce(source, "orders", 1000)
            async with Worker(source, target, Path(place, "worker"), "--topics", "orders", group="fuzz") as worker:
                await worker.caught_up("orders", 1000)
                told = await _requests(f"http://127.0.0.1:{worker.port}", seconds, directory)
                await until(lambda: worker.get("/status"), seconds=10, what="the worker lives")
                return told[0] == 0, told[1]


async def _requests(url: str, seconds: int, directory: Path) -> tuple[int, str]:
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{url}/openapi.json", "--no-color"]
    command += ["--checks", _CHECKS, "--phases", "examples,coverage,fuzzing", "--max-time", str(seconds)]
    # Not ready is 503, as promised; and a feed does not end.
    command += ["--exclude-path", "/health/ready", "--exclude-path", "/events", "--request-timeout", "90"]
    command += ["--continue-on-failure", "--warnings", "off", "--report", "junit", "--report-dir", str(directory)]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=directory,  # it keeps a cache where it runs
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode(errors="replace")
