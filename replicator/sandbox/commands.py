"""`replicator sandbox …`: clusters on this machine that outlive the command, with topics and messages."""

from __future__ import annotations

import asyncio
import signal
import ssl
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Final

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from replicator.command_app import CommandApp, completing
from replicator.command_output import Output, Shown, show
from replicator.errors import ConfigError, ReplicatorError
from replicator.exit_codes import ExitCode
from replicator.protocol import properties
from replicator.protocol.codes import Request
from replicator.protocol.message import StoredMessage
from replicator.sandbox import config, jars, java, probe, tls, traffic
from replicator.sandbox.cluster import Cluster, together
from replicator.sandbox.reports import (
    ClusterReport,
    Consumed,
    ProcessReport,
    ProcessState,
    Produced,
    SandboxDown,
    SandboxReport,
    TopicMade,
)
from replicator.sandbox.spec import ACL_VERSIONS, HA_VERSIONS, VERSIONS, ClusterSpec
from replicator.sandbox.state import Record, RecordedProcess, State

__all__ = ["app"]

_NONE: Final = "No clusters are up."
#: What is possible, in the help and for the shell.
_VERSION: Final[Any] = {"metavar": f"[{'|'.join(VERSIONS)}]", "autocompletion": completing(VERSIONS)}
_HA: Final[Any] = {"metavar": f"[{'|'.join(HA_VERSIONS)}]", "autocompletion": completing(HA_VERSIONS)}
_ACL: Final[Any] = {"metavar": f"[{'|'.join(ACL_VERSIONS)}]", "autocompletion": completing(ACL_VERSIONS)}

app = CommandApp(help="Run real RocketMQ clusters on this machine.", no_args_is_help=True)


@app.command()
def up(
    clusters: Annotated[str, typer.Option(help="Names, separated by commas; the first is the source.")] = (
        "east,west"
    ),
    version: Annotated[str, typer.Option(help="RocketMQ version.", **_VERSION)] = "5.3.3",
    target_version: Annotated[str, typer.Option(help="Version of all but the first cluster.", **_VERSION)] = "",
    brokers: Annotated[int, typer.Option(help="Masters in each cluster.")] = 1,
    ha: Annotated[
        str, typer.Option(help="controller: two replicas of each broker, whose master a controller elects.", **_HA)
    ] = "none",
    acl: Annotated[str, typer.Option(help="Access control.", **_ACL)] = "none",
    target_acl: Annotated[str, typer.Option(help="Access control of all but the first cluster.", **_ACL)] = "",
    tls: Annotated[bool, typer.Option("--tls", help="Accept TLS connections only.")] = False,
    output: Shown = Output.TABLE,
) -> None:
    """Start clusters, which run until `sandbox down`."""
    versions, acls = (version, target_version or version), (acl, target_acl or acl)
    common = {"brokers": brokers, "ha": ha, "tls": tls}
    _run(lambda: _up(clusters, versions=versions, acls=acls, common=common, output=output))


@app.command()
def status(output: Shown = Output.TABLE) -> None:
    """Show what is running. Exit code 5: something that was started no longer runs."""
    _run(lambda: _status(output))


@app.command()
def down(output: Shown = Output.TABLE) -> None:
    """Stop all clusters and delete their data."""
    _run(lambda: _down(output))


@app.command()
def topic(
    name: Annotated[str, typer.Argument(help="The topic.")],
    cluster: Annotated[str, typer.Option(help="Where; default: the first cluster.")] = "",
    queues: Annotated[int, typer.Option(help="Queues on each broker.", min=1)] = 4,
    output: Shown = Output.TABLE,
) -> None:
    """Create a topic."""
    _run(lambda: _topic(name, cluster, queues=queues, output=output))


@app.command()
def produce(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    cluster: Annotated[str, typer.Option(help="Where; default: the first cluster.")] = "",
    count: Annotated[int, typer.Option(help="Messages.", min=1)] = 100,
    size: Annotated[int, typer.Option(help="Bytes of a body, at least.", min=0, max=2**20)] = 0,
    rate: Annotated[int, typer.Option(help="Messages each second; 0: as many as possible.", min=0)] = 0,
    output: Shown = Output.TABLE,
) -> None:
    """Send messages to a topic."""
    _run(lambda: _produce(topic, cluster, count=count, size=size, rate=rate, output=output))


@app.command()
def consume(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    cluster: Annotated[str, typer.Option(help="Where; default: the last cluster.")] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more, until Ctrl-C.")] = False,
    output: Shown = Output.TABLE,
) -> None:
    """Show the messages of a topic, from the oldest on, and where each was copied from."""
    _run(lambda: _consume(topic, cluster, follow=follow, output=output))


def _run(command: Callable[[], Coroutine[None, None, int]]) -> None:
    try:
        code = asyncio.run(command())
    except ReplicatorError as error:
        Console(stderr=True, soft_wrap=True).print(str(error), style="red", markup=False, highlight=False)
        code = ExitCode.BAD_CONFIG if isinstance(error, ConfigError) else ExitCode.UNUSABLE
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except OSError as error:  # a full disk, a directory without permission
        Console(stderr=True, soft_wrap=True).print(str(error), style="red", markup=False, highlight=False)
        code = ExitCode.UNUSABLE
    raise typer.Exit(code)


@contextmanager
def _telling(what: str) -> Iterator[Callable[[str], None]]:
    """Says on standard error what is being done; in a terminal it can be replaced, elsewhere it is one line."""
    console = Console(stderr=True)
    if not console.is_terminal:
        print(what, file=sys.stderr, flush=True)
        yield lambda _: None
        return
    with console.status(what) as line:
        yield line.update


async def _up(
    names: str,
    *,
    versions: tuple[str, str],
    acls: tuple[str, str],
    common: Mapping[str, Any],
    output: Output,
) -> int:
    """Of `versions` and `acls` the first is the first cluster's, the second that of all others.

    `common` are fields that all specs have.
    """
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted or len(set(wanted)) < len(wanted):
        raise ConfigError(f"--clusters {names!r} must name each cluster once")
    specs = [
        ClusterSpec(name=name, version=versions[index > 0], acl=acls[index > 0], **common)
        for index, name in enumerate(wanted)
    ]
    state = State()
    java.java()
    for each in sorted({spec.version for spec in specs}):
        await asyncio.to_thread(jars.ensure, each)
    added: list[ClusterSpec] = []
    try:
        for spec in specs:
            state.add(spec)
            added.append(spec)
        with _telling(f"Starting {' and '.join(wanted)} …"):
            await together(_cluster(spec, state=state).start() for spec in specs)
    except BaseException:
        for spec in added:
            await state.end(spec.name)
        raise
    _show([state.read()[name] for name in wanted], output, state=state, states={})
    return 0


def _cluster(spec: ClusterSpec, *, state: State) -> Cluster:
    return Cluster(spec, directory=state.cluster_directory(spec.name), record=partial(state.record, spec))


async def _status(output: Output) -> int:
    state = State()
    records = list(state.read().values())
    states = {
        process.pid: await _state_of(process, record=record, state=state)
        for record in records
        for process in record.processes
    }
    _show(records, output, state=state, states=states)
    running = all(each == "running" for each in states.values())
    return ExitCode.OK if running else ExitCode.NOT_AS_EXPECTED


async def _down(output: Output) -> int:
    state = State()
    names = list(state.read())
    # Together, so that the others end even if one cannot be ended.
    results = await asyncio.gather(*(state.end(name) for name in names), return_exceptions=True)
    for result in results:
        if result is not None:
            raise result
    show(SandboxDown(ended=names), output, Text(f"Ended {', '.join(names)}." if names else _NONE))
    return 0


async def _topic(name: str, cluster: str, *, queues: int, output: Output) -> int:
    state = State()
    record = traffic.choose(state, cluster)
    async with traffic.opened(record, state) as client:
        made = await traffic.create(client, name, queues=queues)
    found = TopicMade(cluster=record.name, topic=name, queues=len(made))
    show(found, output, Text(f"{record.name} has topic {name} with {len(made)} queues."))
    return 0


async def _produce(topic: str, cluster: str, *, count: int, size: int, rate: int, output: Output) -> int:
    state, sent = State(), 0
    record = traffic.choose(state, cluster)
    async with traffic.opened(record, state) as client:
        with _telling(f"Sending to {topic} …") as tell:
            async for sent in traffic.produce(client, topic, count=count, size=size, rate=rate):
                tell(f"Sent {sent:,} of {count:,} to {topic} …")
    found = Produced(cluster=record.name, topic=topic, messages=sent)
    show(found, output, Text(f"Sent {sent:,} messages to {topic} at {record.name}."))
    return 0


async def _consume(topic: str, cluster: str, *, follow: bool, output: Output) -> int:
    if follow and output is Output.JSON:
        raise ConfigError("--follow never ends, and JSON is printed at the end", hint="leave out one of them")
    state, found = State(), list[Consumed]()
    record = traffic.choose(state, cluster, last=True)
    async with traffic.opened(record, state) as client:
        async for place, message in traffic.consume(client, topic, follow=follow):
            shown = _consumed(place, message)
            if output is Output.JSON:
                found.append(shown)
            else:
                whence = f" (copied from {shown.copied_from})" if shown.copied_from else ""
                print(f"{shown.broker}/{shown.queue} {shown.offset} {shown.keys} {shown.body}{whence}", flush=True)
    if output is Output.JSON:
        show(found, output, "")
    return 0


def _consumed(place: traffic.Place, message: StoredMessage) -> Consumed:
    named = properties.decode(message.properties)
    return Consumed(
        broker=place.broker,
        queue=place.queue_id,
        offset=message.queue_offset,
        keys=named.get("KEYS", ""),
        body=message.body[4:].decode(errors="replace"),
        copied_from=named.get("__RPL_SOURCE"),
    )


async def _state_of(process: RecordedProcess, *, record: Record, state: State) -> ProcessState:
    if not process.id.running():
        return "ended"
    context = _context(record, state=state)
    code = Request.GET_BROKER_CLUSTER_INFO if process.role == "name server" else Request.GET_BROKER_CONFIG
    answer = await probe.ask(("127.0.0.1", process.port), code, tls=context)
    return "running" if answer else "does not answer"


def _context(record: Record, *, state: State) -> ssl.SSLContext | None:
    return tls.files(state.cluster_directory(record.name) / "tls").context() if record.tls else None


def _show(records: Sequence[Record], output: Output, *, state: State, states: Mapping[int, ProcessState]) -> None:
    found = SandboxReport(clusters=[_report(record, state=state, states=states) for record in records])
    show(found, output, _drawn(found.clusters))


def _report(record: Record, *, state: State, states: Mapping[int, ProcessState]) -> ClusterReport:
    guarded = record.acl != "none"
    return ClusterReport(
        name=record.name,
        version=record.version,
        access_key=config.ACCESS_KEY if guarded else None,
        secret_key=config.SECRET_KEY if guarded else None,
        ca_file=str(tls.files(state.cluster_directory(record.name) / "tls").ca) if record.tls else None,
        processes=[
            ProcessReport(
                name=process.name,
                role=process.role,
                address=process.address,
                pid=process.pid,
                state=states.get(process.pid, "running"),
            )
            for process in record.processes
        ],
    )


def _drawn(clusters: Sequence[ClusterReport]) -> RenderableType:
    if not clusters:
        return Text(_NONE)
    table = Table("cluster", "version", "process", "address", "pid", "state")
    for cluster in clusters:
        for process in cluster.processes:
            name = process.role if process.role == "name server" else f"{process.role} {process.name}"
            table.add_row(cluster.name, cluster.version, name, process.address, str(process.pid), process.state)
    lines = []
    for cluster in clusters:
        if cluster.access_key is not None:
            keys = f"access key {cluster.access_key}, secret key {cluster.secret_key}"
            lines.append(f"{cluster.name}: {keys}")
        if cluster.ca_file is not None:
            lines.append(f"{cluster.name}: TLS, certificate authority {cluster.ca_file}")
    addresses = [process.address for cluster in clusters for process in cluster.processes[:1]]
    if len(addresses) > 1:
        lines += ["", f"replicator --source {addresses[0]} --target {addresses[1]}"]
    return Group(table, *(Text(line, no_wrap=True, overflow="ignore") for line in lines))
