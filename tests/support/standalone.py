"""A standalone Spark cluster on loopback: a master and workers with one core each, from the PySpark package."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pyspark

from replicator.spark.engine.java import java_home
from tests.support.processes import running_processes
from tests.support.spark_archive import archive_flags
from tests.support.worker import until

__all__ = ["Standalone", "standalone"]

_CLASSES = "org.apache.spark.deploy"


class Standalone:
    """`url` is what commands take as `--spark-master`; `environment` has a Java for them."""

    def __init__(self, directory: Path) -> None:
        self.url = ""
        self.environment = {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "JAVA_TOOL_OPTIONS": f"-XX:TieredStopAtLevel=1 {archive_flags()}",  # they start often and do little
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # its port would be a fixed one
        }
        if (home := java_home()) is not None:
            self.environment["JAVA_HOME"] = str(home)
        self._directory = directory
        self._processes: list[asyncio.subprocess.Process] = []

    async def start(self, workers: int) -> None:
        await self._begin("master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.url = await until(
            lambda: (re.search(r"Starting Spark master at (spark://\S+)", self.log("master")) or ("", ""))[1],
            seconds=180,
            what="Spark's master",
        )
        for i in range(workers):
            flags = ("--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g")
            await self._begin("worker", *flags, "--work-dir", str(self._directory / f"work-{i}"), self.url)
        registered = "Registering worker"
        await until(lambda: self.log("master").count(registered) >= workers, seconds=180, what="Spark's workers")

    async def close(self) -> None:
        for process in reversed(self._processes):
            if process.returncode is None:
                process.terminate()
        await asyncio.gather(*(process.wait() for process in self._processes))

    def log(self, role: str) -> str:
        """What the processes of a role have said."""
        return (self._directory / f"{role}.log").read_text(errors="replace")

    @property
    def pids(self) -> list[int]:
        """The process ids of master and workers."""
        return [process.pid for process in self._processes]

    def executors(self) -> list[int]:
        """Their process ids, one of each worker that has one."""
        workers = {process.pid for process in self._processes[1:]}
        return [
            each.pid for each in running_processes() if each.parent in workers and "ExecutorBackend" in each.command
        ]

    async def _begin(self, role: str, *flags: str) -> None:
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        name = f"{_CLASSES}.{role}.{role.capitalize()}"
        with (self._directory / f"{role}.log").open("ab") as log:
            self._processes.append(
                await asyncio.create_subprocess_exec(
                    str(program), name, *flags, stdout=log, stderr=log, env=self.environment
                )
            )


@asynccontextmanager
async def standalone(directory: Path, *, workers: int = 2) -> AsyncIterator[Standalone]:
    """A cluster, ended with the context."""
    cluster = Standalone(directory)
    try:
        await cluster.start(workers)
        yield cluster
    finally:
        await cluster.close()
