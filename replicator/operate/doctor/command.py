"""`replicator doctor`: before the first start, and any time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from replicator.client.discovery import Discovery
from replicator.command_app import CommandApp
from replicator.command_output import Output, Shown, show
from replicator.connector.context import look
from replicator.errors import ConfigError, ReplicatorError
from replicator.exit_codes import ExitCode
from replicator.observe.logging import configure
from replicator.operate.doctor.facts import judge_broker, judge_pair
from replicator.operate.doctor.finding import Examination, Finding, Level, bad, good
from replicator.operate.doctor.machine import examine_machine
from replicator.operate.doctor.network import Side, examine_side
from replicator.operate.doctor.route import examine_route
from replicator.operate.job_preflight import world_of
from replicator.operate.options import ConfigFile, with_settings
from replicator.ranges.access import Access
from replicator.service import cluster_of
from replicator.settings import ClusterSettings, Settings, load
from replicator.state.store import Store

__all__ = ["app"]

_MARKS: Final = {Level.OK: ("ok", "green"), Level.WARNING: ("warning", "yellow"), Level.ERROR: ("error", "red")}

app = CommandApp()


@app.command()
@with_settings
def doctor(
    flags: Mapping[str, Any],
    config: ConfigFile = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show warnings and errors only.")] = False,
    output: Shown = Output.TABLE,
) -> None:
    """Check everything that a route needs: machine, networks, brokers, accounts, topics. Nothing is written.

    Takes the settings of a worker. Exit code 5: something has to be changed.
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
            source = Discovery(cluster_of(settings.source), masters_only=False)
            target = Discovery(cluster_of(settings.target), masters_only=True)
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
    here, there = await asyncio.gather(
        _side("source", settings.source, source), _side("target", settings.target, target)
    )
    findings = here.findings + there.findings
    for side, found in (("source", here), ("target", there)):
        for name, facts in sorted(found.facts.items()):
            findings += judge_broker(side, name, facts, settings.route)
    findings += judge_pair(here.facts, there.facts)
    if not here.facts or not there.facts:
        return findings
    try:
        identity = await look(settings, source, target, store)
    except ReplicatorError as error:
        return [*findings, *(bad("clusters", "route", line, error.hint) for line in error.message.splitlines())]
    findings.append(good("clusters", "ids", f"messages are copied from {identity.source} to {identity.target}"))
    try:
        return findings + await examine_route(settings, world_of(settings, source, target, identity, store))
    except ConfigError as error:  # a secret, which was told of above
        return [*findings, bad("route", "settings", error.message, error.hint)]


async def _side(side: str, settings: ClusterSettings, discovery: Discovery) -> Side:
    return await examine_side(side, settings, Access.of(settings).security(), discovery.cluster)


def _drawn(found: Examination, *, quiet: bool) -> RenderableType:
    lines: list[Text] = []
    for finding in found.findings:
        if quiet and finding.level is Level.OK:
            continue
        mark, style = _MARKS[finding.level]
        line = partial(Text, no_wrap=True, overflow="ignore")
        head = line(f"{mark:<8}", style=style)
        head.append(f"{finding.check} {finding.subject}: {finding.message}", style="default")
        lines.append(head)
        if finding.advice:
            lines.append(line(f"{'':<8}→ {finding.advice}", style="dim"))
    summary = f"{found.errors} errors, {found.warnings} warnings, {len(found.findings)} checks"
    return Group(*lines, Text(summary, style="bold"))
