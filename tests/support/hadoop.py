"""HDFS and YARN on loopback, of one node each: Hadoop's own mini clusters, in one JVM."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pyspark

from replicator.sandbox import jars
from replicator.sandbox.java import compile_java
from replicator.spark.engine.java import java_home
from tests.support.processes import running_processes
from tests.support.worker import until

__all__ = ["Hadoop", "hadoop"]

_SOURCE = Path(__file__).parent.parent / "java" / "hadoop" / "MiniHadoop.java"
#: Of the same version as the mini clusters, which are built for it.
SPARKS_JARS = Path(pyspark.__file__).parent / "jars"


class Hadoop:
    """`uri` is that of HDFS; `environment` has what Spark and Hadoop's clients find both by."""

    def __init__(self, directory: Path, uri: str, home: Path | None) -> None:
        self.uri = uri
        self.directory = directory
        self.environment = {**os.environ, "HADOOP_CONF_DIR": str(directory), "SPARK_LOCAL_IP": "127.0.0.1"}
        if home is not None:
            self.environment["JAVA_HOME"] = str(home)

    def executors(self) -> list[int]:
        """The process ids of Spark's executors, each of which is a container of YARN."""
        return [
            each.pid
            for each in running_processes()
            if "/bin/java " in each.command
            and "ExecutorBackend" in each.command
            and str(self.directory) in each.command
            and not each.command.startswith("/bin/bash")
        ]

    def logs(self) -> str:
        """What the containers of applications have written."""
        return "\n".join(
            file.read_text(errors="replace") for file in sorted(self.directory.rglob("std*")) if file.is_file()
        )


@asynccontextmanager
async def hadoop(directory: Path) -> AsyncIterator[Hadoop]:
    """Both, ended with the context."""
    await asyncio.to_thread(directory.mkdir)
    needed = [*await asyncio.to_thread(jars.ensure, "hadoop"), *SPARKS_JARS.glob("hadoop-client-*.jar")]
    for name in ("slf4j-api", "jcl-over-slf4j", "snappy-java"):
        needed += SPARKS_JARS.glob(f"{name}-[0-9]*.jar")
    await compile_java([_SOURCE], needed, out_dir=directory / "classes")
    home = java_home()
    classpath = os.pathsep.join(map(str, [directory / "classes", *needed]))
    log = directory / "hadoop.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(str(home / "bin" / "java") if home else "java", "-Xmx512m", "-XX:TieredStopAtLevel=1"),
            f"-Djava.io.tmpdir={directory}",  # what its web servers unpack is not removed when it is killed
            *("-cp", classpath, "MiniHadoop", str(directory)),
            cwd=directory,
            env={**os.environ, **({"JAVA_HOME": str(home)} if home else {})},
            stdin=asyncio.subprocess.PIPE,
            stdout=output,
            stderr=output,
        )

    def uri() -> str:
        assert process.returncode is None, log.read_text(errors="replace")[-3000:]
        return (re.search(r"^up at (\S+)", log.read_text(errors="replace"), re.MULTILINE) or ("", ""))[1]

    try:
        yield Hadoop(directory, await until(uri, seconds=120, what="HDFS and YARN"), home)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
