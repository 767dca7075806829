"""`replicator sandbox …`: clusters on this machine that outlive the command, with topics and messages."""

from __future__ import annotations

import asyncio
import shlex
import ssl
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from replicator.command_app import CommandApp, completing
from replicator.command_output import Output, Shown, show
from replicator.errors import ConfigError
from replicator.exit_codes import ExitCode
from replicator.protocol.codes import Request
from replicator.sandbox import config, jars, java, probe, tls, topic_commands
from replicator.sandbox import state as state_file
from replicator.sandbox.cluster import Cluster, together
from replicator.sandbox.node import Earlier
from replicator.sandbox.reports import (
    ClusterReport,
    ProcessReport,
    ProcessState,
    SandboxDown,
    SandboxReport,
)
from replicator.sandbox.running import progress, run
from replicator.sandbox.spec import ACL_VERSIONS, HA_VERSIONS, PROXY_VERSIONS, VERSIONS, ClusterSpec
from replicator.sandbox.state import Record, RecordedProcess, State, named

__all__ = ["app"]

_NONE: Final = "No clusters are up."
#: What is possible, in the help and for the shell.
_VERSION: Final[Any] = {"metavar": f"[{'|'.join(VERSIONS)}]", "autocompletion": completing(VERSIONS)}
_HA: Final[Any] = {"metavar": f"[{'|'.join(HA_VERSIONS)}]", "autocompletion": completing(HA_VERSIONS)}
_ACL: Final[Any] = {"metavar": f"[{'|'.join(ACL_VERSIONS)}]", "autocompletion": completing(ACL_VERSIONS)}

_Names = Annotated[
    list[str], typer.Argument(help="Clusters, or processes as `sandbox status` names them.", show_default=False)
]

app = CommandApp(help="Run real RocketMQ clusters on this machine.", no_args_is_help=True)


@app.command()
def up(  # noqa: PLR0913 - the options of a command
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
    proxy: Annotated[
        bool, typer.Option("--proxy", help="A Proxy for gRPC clients, in each cluster whose version has one.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Delete the data of clusters of these names that have ended.")
    ] = False,
    output: Shown = Output.TABLE,
) -> None:
    """Start clusters, which run until `sandbox down`."""
    versions, acls = (version, target_version or version), (acl, target_acl or acl)
    common = {"brokers": brokers, "ha": ha, "tls": tls}
    run(lambda: _up(clusters, versions=versions, acls=acls, proxy=proxy, common=common, force=force, output=output))


@app.command()
def status(output: Shown = Output.TABLE) -> None:
    """Show what is running. Exit code 5: something that was started no longer runs."""
    run(lambda: _status(output))


@app.command()
def kill(names: _Names, output: Shown = Output.TABLE) -> None:
    """Kill clusters, brokers or name servers, as a power failure would; `sandbox start` brings them back."""
    run(lambda: _kill(names, output))


@app.command()
def start(names: _Names, output: Shown = Output.TABLE) -> None:
    """Start what was killed or has ended, with its data and at its address."""
    run(lambda: _restart(names, output))


@app.command()
def down(output: Shown = Output.TABLE) -> None:
    """Stop all clusters and delete their data."""
    run(lambda: _down(output))


for each in (topic_commands.topic, topic_commands.topics, topic_commands.produce, topic_commands.consume):
    app.command()(each)


def _up(
    names: str,
    *,
    versions: tuple[str, str],
    acls: tuple[str, str],
    proxy: bool,
    common: Mapping[str, Any],
    force: bool,
    output: Output,
) -> Coroutine[None, None, int]:
    """Of `versions` and `acls` the first is the first cluster's, the second that of all others.

    `common` are fields that all specs have. Jars are downloaded before there is a loop: Ctrl-C would not end a
    thread beside it.
    """
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted or len(set(wanted)) < len(wanted):
        raise ConfigError(f"--clusters {names!r} must name each cluster once")
    specs = [
        ClusterSpec(
            name=name,
            version=versions[index > 0],
            acl=acls[index > 0],
            proxy=proxy and versions[index > 0] in PROXY_VERSIONS,
            **common,
        )
        for index, name in enumerate(wanted)
    ]
    if proxy and not {*versions} & {*PROXY_VERSIONS}:
        raise ConfigError(
            f"--proxy: RocketMQ {versions[0]} has no Proxy", hint=f"use one of {', '.join(PROXY_VERSIONS)}"
        )
    state = State()
    java.java()
    for each in sorted({spec.version for spec in specs} | {f"{s.version}-proxy" for s in specs if s.proxy}):
        jars.ensure(each)
    return _start(specs, state, output, force=force)


async def _start(specs: Sequence[ClusterSpec], state: State, output: Output, *, force: bool) -> int:
    wanted = [spec.name for spec in specs]
    added: list[ClusterSpec] = []
    try:
        for spec in specs:
            state.add(spec, force=force)
            added.append(spec)
        with progress(f"Starting {' and '.join(wanted)} …", steps=True) as say:
            await together(_cluster(spec, state=state, say=say).start() for spec in specs)
    except BaseException:
        for spec in added:
            await state.end(spec.name)
        raise
    _show([state.read()[name] for name in wanted], output, state=state, states={})
    return 0


def _cluster(
    spec: ClusterSpec,
    *,
    state: State,
    say: Callable[[str], None],
    earlier: Mapping[str, Earlier] | None = None,
) -> Cluster:
    directory = state.cluster_directory(spec.name)
    return Cluster(spec, directory=directory, record=partial(state.record, spec), say=say, earlier=earlier)


async def _status(output: Output) -> int:
    state = State()
    records = list(state.read().values())
    states = await _states(records, state=state)
    _show(records, output, state=state, states=states)
    running = all(each == "running" for each in states.values())
    return ExitCode.OK if running else ExitCode.NOT_AS_EXPECTED


async def _kill(names: Sequence[str], output: Output) -> int:
    state = State()
    chosen = named(state, names)
    await state_file.kill(process for record, processes in chosen for process in processes)
    return await _show_now([record for record, _ in chosen], output, state=state)


async def _restart(names: Sequence[str], output: Output) -> int:
    state = State()
    chosen = named(state, names)
    with progress(f"Starting {', '.join(names)} …", steps=True) as say:
        await together(_start_again(record, processes, state=state, say=say) for record, processes in chosen)
    return await _show_now([record for record, _ in chosen], output, state=state)


async def _start_again(
    record: Record, processes: Sequence[RecordedProcess], *, state: State, say: Callable[[str], None]
) -> None:
    ended = [process.directory for process in processes if not process.id.running()]
    if not ended:
        say(f"{', '.join(process.name for process in processes)}: nothing to start, all of it runs")
        return
    state.resume(record.name)
    earlier = {each.directory: Earlier(id=each.id, port=each.port) for each in record.processes}
    await _cluster(record.spec, state=state, say=say, earlier=earlier).start_again(ended)


async def _show_now(before: Sequence[Record], output: Output, *, state: State) -> int:
    """The clusters as they are now."""
    records = [record for name, record in state.read().items() if name in {each.name for each in before}]
    _show(records, output, state=state, states=await _states(records, state=state))
    return ExitCode.OK


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


async def _states(records: Sequence[Record], *, state: State) -> dict[int, ProcessState]:
    return {
        process.pid: await _state_of(process, record=record, state=state)
        for record in records
        for process in record.processes
    }


async def _state_of(process: RecordedProcess, *, record: Record, state: State) -> ProcessState:
    if not process.id.running():
        return "ended"
    if process.role == "proxy":
        return "running" if await probe.accepts(("127.0.0.1", process.port)) else "does not answer"
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


def _variables(side: str, cluster: ClusterReport) -> Iterator[tuple[str, str]]:
    """What a replicator needs to be let into a cluster; secrets are no flags, since others see those."""
    if cluster.access_key is not None and cluster.secret_key is not None:
        yield f"{side}__ACCESS_KEY", cluster.access_key
        yield f"{side}__SECRET_KEY", cluster.secret_key
    if cluster.ca_file is not None:
        yield f"{side}__TLS__MODE", "verify"
        yield f"{side}__TLS__CA_FILE", cluster.ca_file


def _drawn(clusters: Sequence[ClusterReport]) -> RenderableType:
    if not clusters:
        return Text(_NONE)
    table = Table("cluster", "version", "process", "address", "pid", "state", box=None, pad_edge=False)
    for cluster in clusters:
        for process in cluster.processes:
            name = f"{process.role} {process.name}"
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
        given = [*_variables("SOURCE", clusters[0]), *_variables("TARGET", clusters[1])]
        lines += ["", *(f"export REPLICATOR_{name}={shlex.quote(value)}" for name, value in given)]
        lines.append(f"replicator --source {addresses[0]} --target {addresses[1]}")
    return Group(table, *(Text(line, no_wrap=True, overflow="ignore") for line in lines))
