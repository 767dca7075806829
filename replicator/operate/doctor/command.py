"""`replicator doctor`: before the first start, and any time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

import typer
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from replicator.admin.silent_brokers import look_at
from replicator.client.discovery import Discovery
from replicator.command_app import CommandApp
from replicator.command_output import Output, Shown, show
from replicator.connector.context import read_clusters
from replicator.connector.identity import group_name
from replicator.errors import ConfigError, ReplicatorError
from replicator.exit_codes import ExitCode
from replicator.observe.logging import configure
from replicator.observe.printable import one_line
from replicator.operate.doctor.finding import Examination, Finding, Level, bad, good, unchecked
from replicator.operate.doctor.machine import examine_machine, judge_kept
from replicator.operate.doctor.network import Side, examine_side
from replicator.operate.doctor.pair import judge_names, judge_pair
from replicator.operate.doctor.route import examine_route
from replicator.operate.jobs.job_preflight import world_of
from replicator.operate.options import ConfigFile, with_settings
from replicator.ranges.access import Access
from replicator.service import cluster_of
from replicator.settings import ClusterSettings, RouteSettings, Settings, load
from replicator.state.store import Store

__all__ = ["app"]

_STYLES: Final = {Level.OK: "green", Level.WARNING: "yellow", Level.ERROR: "bold red", Level.NOT_CHECKED: "magenta"}
#: Characters of a subject for which all others make room.
_COLUMN: Final = 40
#: Columns that a line has at least, however narrow the terminal is.
_LEAST: Final = 20

app = CommandApp()


@app.command()
@with_settings
def doctor(
    flags: Mapping[str, Any],
    config: ConfigFile = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show what is not ok only.")] = False,
    output: Shown = Output.TABLE,
) -> None:
    """Check everything that a route needs: machine, networks, brokers, accounts, topics. Nothing is written.

    Takes the settings of a worker. One line each, and below what is not ok, what to do. Exit code 0: no errors
    (warnings are possible); 5: errors were found.
    """
    settings = load(flags, file=config)
    configure(level="error")
    found = Examination.of(asyncio.run(_examine(settings)))
    show(found, output, _drawn(found, quiet=quiet))
    raise typer.Exit(ExitCode.NOT_AS_EXPECTED if found.errors else ExitCode.OK)


async def _examine(settings: Settings) -> list[Finding]:
    findings = [*examine_machine(settings)]
    with TemporaryDirectory() as empty, closing(Store(Path(empty))) as store:
        try:
            source = Discovery(cluster_of(settings.source, settings.topics), masters_only=False)
            target = Discovery(cluster_of(settings.target, ()), masters_only=True)
        except ReplicatorError as error:  # of its secret or of its certificates
            known = any(finding.message == error.message for finding in findings)
            return findings if known else [*findings, bad("this machine", "TLS", error.message, error.hint)]
        try:
            return findings + await _examine_clusters(settings, source, target, store)
        finally:
            await asyncio.gather(source.cluster.close(), target.cluster.close())


async def _examine_clusters(
    settings: Settings, source: Discovery, target: Discovery, store: Store
) -> list[Finding]:
    group = None if settings.standalone else settings.coordination
    here, there = await asyncio.gather(
        _side("source", settings.source, source, route=settings.route, writes=group == "source"),
        _side("target", settings.target, target, route=settings.route, writes=True),
    )
    findings = here.findings + there.findings
    if here.facts and there.facts:
        findings += judge_pair(here.facts, there.facts, settings.route)
    else:
        why = "a Proxy does not tell them" if source.cluster.is_proxy else "one of them has no master that answers"
        reason = f"whether their settings fit together, because {why}"
        findings.append(unchecked("both clusters", "settings", reason))
    if here.topology is not None and there.topology is not None:
        names = here.topology.cluster, there.topology.cluster
        findings.append(judge_names(*names, (settings.source, settings.target)))
    try:
        async with look_at(source.cluster, target.cluster):
            identity = await read_clusters(settings, source, target, store)
    except ReplicatorError as error:
        said = " ".join(finding.message for finding in findings)
        new = [line for line in error.message.splitlines() if line.rpartition(": ")[2] not in said]
        findings += [bad("clusters", "route", line, error.hint) for line in new]
        reason = "topics, rights, groups and workers, because the clusters cannot be used as they are"
        return [*findings, unchecked("clusters", "route", reason)]
    findings.append(good("clusters", "route", f"messages are copied from {identity.source} to {identity.target}"))
    findings += judge_kept(settings.store_path, identity, group_name(settings, identity))
    try:
        context = world_of(settings, source, target, identity, store)
        return findings + await examine_route(settings, context, here.facts, there.facts)
    except ConfigError as error:  # a secret, which was told of above, or a pattern
        reason = f"topics, rights, groups and workers, because {error.message}"
        return [*findings, unchecked("clusters", "route", reason, error.hint)]


async def _side(
    side: str, settings: ClusterSettings, discovery: Discovery, *, route: RouteSettings, writes: bool
) -> Side:
    security = Access.of(settings).security()
    return await examine_side(side, settings, security, discovery.cluster, route=route, writes=writes)


def _drawn(found: Examination, *, quiet: bool) -> RenderableType:
    shown = [each for each in found.findings if not quiet or each.level is not Level.OK]
    marks = max(map(len, Level))
    checks, subjects = (max((len(part) for part in parts), default=0) for parts in _columns(shown))
    lines: list[RenderableType] = []
    for each in shown:
        level = Text(f"{each.level:<{marks}}  ", style=_STYLES[each.level])
        found_there = f"{each.check:<{checks}}  {each.subject:<{subjects}}  {one_line(each.message)}"
        lines.append(_Hanging(level, Text(found_there)))
        if each.advice:
            lines.append(_Hanging(Text(" " * len(level)), Text(f"→ {one_line(each.advice)}", style="dim")))
    counts = {"error": found.errors, "warning": found.warnings, "not checked": found.not_checked}
    tally = [
        f"{number} {name}{'s' if number != 1 and name != 'not checked' else ''}" for name, number in counts.items()
    ]
    return Group(*lines, Text(f"{', '.join(tally)}, of {len(found.findings)} checks", style="bold"))


class _Hanging:
    """A line of which nothing is lost on a narrow terminal: it goes on below, to the right of its head."""

    def __init__(self, head: Text, text: Text) -> None:
        self._head = head
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = self._head
        for line in self._text.wrap(console, max(_LEAST, options.max_width - len(head)), overflow="fold"):
            yield Text.assemble(head, line, no_wrap=True, overflow="ignore")
            head = Text(" " * len(head))


def _columns(findings: Sequence[Finding]) -> tuple[list[str], list[str]]:
    """What they looked at, and which; a long one stands out of its column."""
    return [each.check for each in findings], [each.subject for each in findings if len(each.subject) <= _COLUMN]
