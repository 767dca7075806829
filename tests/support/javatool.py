"""The official Java client as a witness: small Java programs, compiled once, that send and read messages."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from replicator.sandbox import jars
from replicator.sandbox.class_archive import ClassArchive
from replicator.sandbox.java import compile_java, environment, java
from tests.support.history import Message, Place

SOURCES = Path(__file__).parent.parent / "java"
CLIENT_VERSION = "5.3.3"

# Left out of the classpath: their logging configuration would win over the client's.
_SERVERS = ("rocketmq-broker-", "rocketmq-namesrv-", "rocketmq-controller-", "rocketmq-tiered-store-")

# Put into each message by the reading client: the bounds of its queue.
_ADDED = ("MIN_OFFSET", "MAX_OFFSET")

# The client's netty and its hashing reach into these packages.
_FLAGS = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Xlog:disable",  # its output is read
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)


class JavaToolError(RuntimeError):
    """A Java program failed; the message has what it printed."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Access key and secret key."""

    access_key: str
    secret_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One message to send. `kind` is plain, batch, commit, rollback or undecided; see Produce.java."""

    topic: str
    body: bytes = b""
    keys: str = ""
    tags: str = ""
    flag: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    kind: str = "plain"
    queue: tuple[str, int] | None = None
    shard: int | None = None
    level: int | None = None
    delay_s: int | None = None
    deliver_ms: int | None = None

    def line(self) -> str:
        """As Produce.java reads it."""
        fields: dict[str, object] = {"kind": self.kind, "topic": self.topic, "body": self.body.hex()}
        fields |= {"keys": self.keys, "tags": self.tags, "flag": self.flag}
        fields |= {f"prop.{name}": value for name, value in self.properties.items()}
        if self.queue is not None:
            fields["broker"], fields["queue"] = self.queue
        optional = {"shard": self.shard, "level": self.level, "delay-s": self.delay_s}
        optional["deliver-ms"] = self.deliver_ms
        fields |= {name: value for name, value in optional.items() if value is not None}
        return "\t".join(f"{name}={quote(str(value), safe='')}" for name, value in fields.items())


@dataclass(frozen=True, slots=True)
class Sent:
    """An acknowledged send; the messages of a batch have one together. `state` is a transaction's end."""

    status: str
    broker: str
    queue: int
    offset: int
    msg_id: str
    state: str


@dataclass(frozen=True, slots=True)
class Read:
    """One message as the official client shows it. `body` is its SHA-256 when digests were requested."""

    topic: str
    broker: str
    queue: int
    offset: int
    msg_id: str
    flag: int
    sys_flag: int
    born: int
    stored: int
    reconsumed: int
    properties: Mapping[str, str]
    body: bytes

    def message(self, origin: Callable[[Mapping[str, str]], Place | None] = lambda _: None) -> Message:
        """For the judge of histories; `origin` finds the provenance among the properties."""
        properties = {name: value for name, value in self.properties.items() if name not in _ADDED}
        return Message(
            Place(self.broker, self.queue, self.offset),
            self.body.hex(),
            keys=properties.pop("KEYS", ""),
            tags=properties.pop("TAGS", ""),
            flag=self.flag,
            properties=properties,
            origin=origin(self.properties),
        )


async def java_produce(
    namesrv: str,
    orders: Iterable[Order],
    *,
    group: str = "java-produce",
    vip: bool = False,
    compress: str = "",
    compress_over: int = 64,
    credentials: Credentials | None = None,
) -> list[Sent]:
    """Sends all orders in turn. Answers come per order, but once per stretch of orders of kind batch."""
    options = {"namesrv": namesrv, "group": group, "vip": str(vip).lower()}
    if compress:
        options |= {"compress": compress, "compress-over": str(compress_over)}
    text = "".join(order.line() + "\n" for order in orders)
    output = await _run("Produce", options | _signed(credentials), text=text)
    return [_sent(json.loads(line)) for line in output]


async def java_read_topic(
    namesrv: str,
    topic: str,
    *,
    sql: str = "",
    tags: str = "*",
    digest: bool = False,
    credentials: Credentials | None = None,
) -> list[Read]:
    """Reads every queue from its first to its last message; queue by queue, in order."""
    options = {"mode": "pull", "namesrv": namesrv, "topic": topic, "sql": sql, "tags": tags}
    options["body"] = "sha256" if digest else "hex"
    output = await _run("Consume", options | _signed(credentials))
    return [_read(json.loads(line)) for line in output]


async def java_consume(
    namesrv: str,
    topic: str,
    *,
    group: str,
    count: int | None = None,
    idle: int = 10,
    sql: str = "",
    tags: str = "*",
    vip: bool = False,
    start: str = "CONSUME_FROM_FIRST_OFFSET",
    broadcast: bool = False,
    credentials: Credentials | None = None,
) -> list[Read]:
    """Joins `group` and consumes `count` messages, or until none came for `idle` seconds; commits offsets."""
    options = {"mode": "push", "namesrv": namesrv, "topic": topic, "group": group, "idle-s": str(idle)}
    options |= {
        "sql": sql,
        "tags": tags,
        "vip": str(vip).lower(),
        "from": start,
        "broadcast": str(broadcast).lower(),
    }
    if count is not None:
        options["count"] = str(count)
    output = await _run("Consume", options | _signed(credentials))
    return [_read(json.loads(line)) for line in output]


async def compiled(sources: Sequence[Path], *, version: str = CLIENT_VERSION) -> list[Path]:
    """The classpath with the compiled `sources` at its end; recompiled only when one of them changed.

    Args:
        version: whose client they are for, or the name of another group of jars.
    """
    classpath = await asyncio.to_thread(_client_jars, version)
    seal = hashlib.sha256(version.encode())
    for source in sources:
        seal.update(source.name.encode() + b"\0" + source.read_bytes())
    classes = jars.cache_directory().parent / "classes" / seal.hexdigest()[:20]
    if not classes.is_dir():
        classes.parent.mkdir(parents=True, exist_ok=True)
        # Into a directory of its own first, so that two processes at once do not see half of it.
        fresh = Path(tempfile.mkdtemp(dir=classes.parent))
        try:
            await compile_java(sources, classpath, out_dir=fresh)
            await asyncio.to_thread(fresh.rename, classes)
        except OSError:
            if not classes.is_dir():
                raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return [*classpath, classes]


def _client_jars(version: str) -> list[Path]:
    return [jar for jar in jars.ensure(version) if not jar.name.startswith(_SERVERS)]


@asynccontextmanager
async def own_home() -> AsyncIterator[Path]:
    """A home directory for one Java process: its client writes logs and offset files there."""
    home = Path(tempfile.mkdtemp(prefix="java-home-"))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


async def _run(program: str, options: Mapping[str, str], *, text: str = "") -> list[str]:
    classpath = await compiled(sorted(SOURCES.glob("*.java")))
    arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
    return await run_java(program, arguments, classpath=classpath, archive=f"client-{CLIENT_VERSION}", text=text)


async def run_java(
    program: str, arguments: Sequence[str], *, classpath: Sequence[Path], archive: str, text: str = ""
) -> list[str]:
    """The lines that a Java program prints; its classes are kept in an archive of that name."""
    # Of the jars only: an archive has no classes of directories, which therefore stand behind them.
    kept = await asyncio.to_thread(ClassArchive, archive, classpath[:-1])
    async with own_home() as home:
        record = home / "loaded-classes"
        flags = (*_FLAGS, *kept.flags(record), f"-Duser.home={home}")
        process = await asyncio.create_subprocess_exec(
            *(str(java()), *flags, "-cp", os.pathsep.join(map(str, classpath))),
            *(program, *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(),
        )
        try:
            output, errors = await process.communicate(text.encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if kept.wanted and record.exists():
            await asyncio.to_thread(kept.make, [record])
    if process.returncode != 0:
        raise JavaToolError(f"{program} ended with {process.returncode}: {errors.decode(errors='replace')}")
    return output.decode().split("\n")[:-1]


def _signed(credentials: Credentials | None) -> dict[str, str]:
    if credentials is None:
        return {}
    return {"access-key": credentials.access_key, "secret-key": credentials.secret_key}


def _sent(fields: Mapping[str, Any]) -> Sent:
    return Sent(
        fields["status"],
        fields["broker"],
        fields["queue"],
        fields["offset"],
        fields["msgId"],
        fields["state"],
    )


def _read(fields: Mapping[str, Any]) -> Read:
    return Read(
        topic=fields["topic"],
        broker=fields["broker"],
        queue=fields["queue"],
        offset=fields["offset"],
        msg_id=fields["msgId"],
        flag=fields["flag"],
        sys_flag=fields["sysFlag"],
        born=fields["bornTimestamp"],
        stored=fields["storeTimestamp"],
        reconsumed=fields["reconsumeTimes"],
        properties=fields["properties"],
        body=bytes.fromhex(fields["body"]),
    )
