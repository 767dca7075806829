"""The measured programs: each contender is a command line that copies one topic, and a way to detect its end."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.masters import Master
from replicator.sandbox.java import environment, java
from tests.support.javatool import compiled

SOURCES = Path(__file__).parent / "java"
#: Of a topic, where a part does not say how many.
QUEUES = 8
REPLICATOR = (str(Path(sys.executable).with_name("replicator")),)

_JAVA_FLAGS = (
    "-Xmx1g",
    "-XX:-UsePerfData",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to copy: name servers and a broker of each side, `topic` into `target_topic`; a directory for files."""

    source: str
    target: str
    topic: str
    target_topic: str
    messages: int
    size: int
    queues: int
    brokers: tuple[str, str]
    directory: Path


class Contender(Protocol):
    """`ends`: it ends by itself after the last message; `makes_topic`: it creates the target topic."""

    name: str
    ends: bool
    makes_topic: bool

    async def command(self, job: Job) -> list[str]: ...

    def environment(self, job: Job) -> dict[str, str]: ...


class Replicator:
    """This project, as its users start it. It runs until it is stopped."""

    name = "replicator"
    ends = False
    makes_topic = True

    def __init__(self, program: Sequence[str] = REPLICATOR) -> None:
        self.program = list(program)

    @classmethod
    def named(cls, text: str) -> Replicator:
        return cls(shlex.split(text)) if text else cls()

    async def command(self, job: Job) -> list[str]:
        options = ["--source", job.source, "--target", job.target, "--topics", job.topic]
        if job.target_topic != job.topic:
            options += ["--rename", job.target_topic.replace(job.topic, "{topic}")]
        options += ["--worker-group", job.target_topic.replace(".*", "")]  # each round has its own group
        return [*self.program, *options, "--store-path", str(job.directory / "store"), "--rest-port", "0"]

    def environment(self, job: Job) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", ""), "HOME": str(job.directory)}


class Scraped(Replicator):
    """The same, with its metrics scraped every second."""

    name = "replicator-scraped"


class OnSpark(Replicator):
    """The same route, whose messages are copied by Spark's tasks on `master`."""

    def __init__(self, master: Master, program: Sequence[str] = REPLICATOR) -> None:
        super().__init__(program)
        self.name = f"engine=spark on {master.name}"
        self.master = master

    async def command(self, job: Job) -> list[str]:
        return [*await super().command(job), "--engine", "spark", "--spark-master", self.master.url]

    def environment(self, job: Job) -> dict[str, str]:
        return {**super().environment(job), **self.master.environment}


class Spark:
    """A command of this project that Spark runs, on `master`."""

    ends = True
    makes_topic = True

    def __init__(self, command: str, master: Master, program: Sequence[str] = REPLICATOR) -> None:
        self.name = f"{command} on {master.name}"
        self.master = master
        self._command = command
        self._program = list(program)

    async def command(self, job: Job) -> list[str]:
        archive = str(job.directory / "archive")
        source, options = ["--source", job.source], ["--topics", job.topic, "--spark-master", self.master.url]
        options += ["--output", "json"]
        target = ["--target", job.target, "--rename", job.target_topic.replace(job.topic, "{topic}")]
        store = ["--store-path", str(job.directory / f"{self._command}-store")]
        match self._command:
            case "export":
                return [*self._program, "export", archive, *source, *options]
            case "import":
                return [*self._program, "import", archive, *target, *store, *options]
            case "backfill":
                target += [*store, "--worker-group", job.target_topic]
        return [*self._program, self._command, *source, *target, *options]

    def environment(self, job: Job) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", ""), "HOME": str(job.directory), **self.master.environment}


class Relay:
    """A plain relay with the official Java client."""

    name = "java-relay"
    ends = True
    makes_topic = False

    async def command(self, job: Job) -> list[str]:
        return await _java(
            "Relay",
            home=job.directory,
            source=job.source,
            target=job.target,
            source_topic=job.topic,
            target_topic=job.target_topic,
            messages=str(job.messages),
        )

    def environment(self, job: Job) -> dict[str, str]:
        return environment(HOME=str(job.directory))


class Forward:
    """A push consumer of the official Java client that sends what it gets."""

    name = "java-forwarder"
    ends = False
    makes_topic = False

    async def command(self, job: Job) -> list[str]:
        return await _java(
            "Forward",
            home=job.directory,
            source=job.source,
            target=job.target,
            source_topic=job.topic,
            target_topic=job.target_topic,
        )

    def environment(self, job: Job) -> dict[str, str]:
        return environment(HOME=str(job.directory))


class Floor:
    """This project's client without a route: a pull and a send each."""

    name = "floor"
    ends = False
    makes_topic = False

    async def command(self, job: Job) -> list[str]:
        source, target = job.brokers
        command = [sys.executable, "-m", "bench.floor", "--source-broker", source, "--target-broker", target]
        return [*command, "--topic", job.topic, "--target-topic", job.target_topic, "--queues", str(job.queues)]

    def environment(self, job: Job) -> dict[str, str]:
        here = str(Path(__file__).parent.parent)
        return {"PATH": os.environ.get("PATH", ""), "HOME": str(job.directory), "PYTHONPATH": here}


class Fill:
    """Batches of the official Java client into one topic: fills sources, and measures the target's ceiling."""

    name = "ceiling"
    ends = True
    makes_topic = False

    async def command(self, job: Job) -> list[str]:
        return await _java(
            "Fill",
            home=job.directory,
            namesrv=job.target,
            topic=job.target_topic,
            messages=str(job.messages),
            size=str(job.size),
        )

    def environment(self, job: Job) -> dict[str, str]:
        return environment(HOME=str(job.directory))


async def _java(program: str, *, home: Path, **options: str) -> list[str]:
    classpath = await compiled(sorted(SOURCES.glob("*.java")))
    arguments = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    flags = [*_JAVA_FLAGS, f"-Duser.home={home}", "-cp", os.pathsep.join(map(str, classpath))]
    return [str(java()), *flags, program, *arguments]
