"""`replicator acl plan | apply | status`: accounts and rights, without a running worker."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypedDict

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from acl_sync import AclOptions, AclPlan, AclSyncer, Applied
from replicator.client.cluster import Cluster, Topology
from replicator.command_app import CommandApp
from replicator.command_output import Output, Shown, show
from replicator.connector.identity import identify
from replicator.connector.sync.acl import acl_options
from replicator.errors import StartupError
from replicator.exit_codes import ExitCode
from replicator.observe.logging import configure
from replicator.operate.options import ConfigFile, with_settings
from replicator.operate.reports import AclApplied, AclPlanned, AclStatus
from replicator.operate.show import table
from replicator.routing.options import Identity
from replicator.service import cluster_of
from replicator.settings import Settings, load
from replicator.state import state_file

__all__ = ["SETTINGS", "app", "kept_by_last_run"]

#: The settings that apply to accounts.
SETTINGS: Final = ("acl", "sync_deletes", "store_path", "log_level")

_FILE: Final = "acl.json"


class Kept(TypedDict, total=False):
    """What a run keeps for the next one: the ids of the clusters, and by target broker which accounts are ours."""

    source_id: str
    target_id: str
    brokers: dict[str, Any]


app = CommandApp(no_args_is_help=True, help="Sync accounts and permissions to the target.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The settings and options of a command."""

    settings: Settings
    options: AclOptions

    @property
    def file(self) -> Path:
        return self.settings.store_path / _FILE


def _wanted(flags: Mapping[str, Any], config: Path | None) -> _Wanted:
    settings = load(flags, file=config)
    configure(level=settings.log_level)
    own = (settings.source.access_key, settings.target.access_key)
    return _Wanted(settings=settings, options=acl_options(settings, own=own))


async def _run(
    wanted: _Wanted, *, apply: bool, agreed: AclPlan | None = None
) -> tuple[AclPlan, list[Applied], dict[str, Any]]:
    """`agreed` is the plan that somebody has said yes to: another one is not applied."""
    source, target = cluster_of(wanted.settings.source), cluster_of(wanted.settings.target)
    kept = kept_by_last_run(wanted.file)
    try:
        ids = await _identified(wanted, source, target, kept)
        syncer = AclSyncer(source, target, wanted.options, owned=kept.get("brokers"))

        def keep() -> None:
            _keep(wanted.file, {"source_id": ids.source, "target_id": ids.target, "brokers": syncer.owned})

        plan = await syncer.plan()
        if agreed is not None and plan.pending != agreed.pending:
            raise StartupError("the plan is another one by now, and nothing was changed", hint="run it again")
        if not apply:
            return plan, [], syncer.owned
        if syncer.claim(plan):
            keep()
        try:
            return plan, await syncer.apply(plan), syncer.owned
        finally:
            keep()
    finally:
        await source.close()
        await target.close()


async def _identified(wanted: _Wanted, source: Cluster, target: Cluster, kept: Mapping[str, Any]) -> Identity:
    """The ids of both clusters; accounts in files need no source that answers."""
    there = await target.refresh()
    known = wanted.settings.source.id or kept.get("source_id")
    if wanted.options.source_dir is None or not known:
        return identify(wanted.settings, await source.refresh(), there, kept)
    return identify(wanted.settings, Topology(known, {}), there, kept)


def kept_by_last_run(file: Path) -> Kept:
    """What the last run has kept; nothing where there was none.

    Raises:
        StartupError: the file cannot be read, or has something else.
    """
    content = state_file.read(file)
    try:
        return msgspec.convert({} if content is None else content, Kept)
    except msgspec.ValidationError as error:
        raise StartupError(
            f"{file} is not what this command keeps of accounts ({error})",
            hint="restore the file; without it nothing is deleted, and equal accounts are adopted",
        ) from None


def _keep(file: Path, content: dict[str, Any]) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        state_file.write(file, content)
    except OSError as error:
        raise StartupError(
            f"{file} cannot be written ({error.strerror})", hint="name a writable directory with --store-path"
        ) from None


@app.command()
@partial(with_settings, only=SETTINGS)
def plan(flags: Mapping[str, Any], config: ConfigFile = None, output: Shown = Output.TABLE) -> None:
    """Show what `acl apply` would change, without changing anything."""
    wanted = _wanted(flags, config)
    made, _, _ = asyncio.run(_run(wanted, apply=False))
    show(AclPlanned.model_validate(made.as_json()), output, _drawn(made))
    _end(made)


@app.command()
@partial(with_settings, only=SETTINGS)
def apply(
    flags: Mapping[str, Any],
    config: ConfigFile = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask on the first run.")] = False,
    output: Shown = Output.TABLE,
) -> None:
    """Make the target's accounts those of the source.

    The first run shows its plan and asks; without a terminal it changes nothing and exits with 5. --yes skips that.
    """
    wanted = _wanted(flags, config)
    asks = not yes and not wanted.file.exists()
    made, done, _ = asyncio.run(_run(wanted, apply=not asks))
    if asks and made.pending:
        show(_applied(made), output, _drawn(made))
        asked = output is Output.TABLE and sys.stdin.isatty()
        if not (asked and _agrees()):
            why = "" if asked else ", since this is the first run: give --yes"
            typer.echo(f"Nothing was changed{why}.", err=True)
            raise typer.Exit(ExitCode.NOT_AS_EXPECTED)
        made, done, _ = asyncio.run(_run(wanted, apply=True, agreed=made))
    drawn = _drawn(made, {id(each.action): each.error or "done" for each in done})
    show(_applied(made, done), output, drawn)
    _end(made, done)


def _agrees() -> bool:
    """Asks; whoever ends the command instead of answering declines."""
    try:
        return typer.confirm("This is the first run. Apply this plan?")
    except typer.Abort:
        return False


@app.command()
@partial(with_settings, only=SETTINGS)
def status(flags: Mapping[str, Any], config: ConfigFile = None, output: Shown = Output.TABLE) -> None:
    """Show what each target broker still lacks of the source's accounts."""
    wanted = _wanted(flags, config)
    made, _, owned = asyncio.run(_run(wanted, apply=False))
    rows = [
        {
            "broker": broker,
            "acl": dialect.value,
            "ours": len(owned.get(broker, {}).get("accounts", {})),
            "pending": sum(action.broker == broker for action in made.pending),
            "blocked": sum(action.broker == broker for action in made.blocked),
        }
        for broker, dialect in made.targets.items()
    ]
    columns = ("broker", "acl", "ours", "pending", "blocked")
    drawn = table(columns, [[row[name] for name in columns] for row in rows], empty="no broker")
    unreachable = made.as_json()["unreachable_brokers"]
    report = AclStatus.model_validate(
        {"source": made.source.value, "brokers": rows, "unreachable_brokers": unreachable}
    )
    show(report, output, Group(drawn, *_notes(made)))
    _end(made)


def _applied(made: AclPlan, done: Sequence[Applied] = ()) -> AclApplied:
    return AclApplied.model_validate({**made.as_json(), "applied": [each.as_json() for each in done]})


def _end(made: AclPlan, done: Sequence[Applied] = ()) -> None:
    """Exits with a code that scripts can check if brokers were left out, or an action failed."""
    if made.unreachable_brokers or any(each.error for each in done):
        raise typer.Exit(ExitCode.NOT_AS_EXPECTED)


def _drawn(made: AclPlan, outcomes: Mapping[int, str] | None = None) -> RenderableType:
    rows = [
        [
            action.broker,
            action.verb.value,
            action.account,
            "\n".join(action.changes),
            f"not done: {action.blocked}" if action.blocked else (outcomes or {}).get(id(action), ""),
        ]
        for action in made.actions
    ]
    columns = ("broker", "action", "account", "changes", "outcome")
    return Group(table(columns, rows, empty="the target matches the source"), *_notes(made))


def _notes(made: AclPlan) -> list[Text]:
    return [Text(f"note: {note}", style="dim") for note in made.notes]
