"""`replicator acl plan | apply | status`: accounts and rights, without a running worker."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from acl_sync import AclOptions, AclPlan, AclSyncer, Applied
from replicator.connector.sync.acl import acl_options
from replicator.errors import StartupError
from replicator.exit_codes import ExitCode
from replicator.observe.logging import configure
from replicator.operate.options import ConfigFile
from replicator.operate.show import Output, Shown, show, table
from replicator.service import cluster_of
from replicator.settings import Settings, load
from replicator.state import state_file

__all__ = ["app"]

_FILE: Final = "acl.json"

app = typer.Typer(no_args_is_help=True, help="Sync accounts and rights from the source to the target.")


def _option(flag: str, text: str) -> Any:
    return typer.Option(flag, help=text, show_default=False)


Address = Annotated[str | None, _option("--source", "Name servers of the source.")]
Target = Annotated[str | None, _option("--target", "Name servers of the target.")]
SourceKey = Annotated[str | None, _option("--source-access-key", "Account to read the source as.")]
SourceSecret = Annotated[str | None, _option("--source-secret-key-file", "File with its secret.")]
TargetKey = Annotated[str | None, _option("--target-access-key", "Account to change the target as.")]
TargetSecret = Annotated[str | None, _option("--target-secret-key-file", "File with its secret.")]
StorePath = Annotated[
    str | None, _option("--store-path", f"Directory of {_FILE}: which accounts at the target are ours.")
]
Include = Annotated[
    list[str] | None,
    _option("--include", "Accounts to sync, by name or regular expression (setting acl.accounts)."),
]
Exclude = Annotated[
    list[str] | None,
    _option("--exclude", "Accounts not to sync; wins over --include (acl.exclude_accounts)."),
]
Admins = Annotated[
    bool | None, _option("--admins/--no-admins", "Sync admins and Super users too (setting acl.admins).")
]
Deletes = Annotated[
    bool | None,
    _option("--deletes/--no-deletes", "Delete what we created and the source lost (setting sync_deletes)."),
]
Adopt = Annotated[
    bool | None,
    _option("--adopt/--no-adopt", "Change accounts that were at the target before us (setting acl.adopt)."),
]
SourceDir = Annotated[
    Path | None,
    _option(
        "--source-acl-dir", "Read ACL 1.0 from plain_acl.yml and acl/ in this directory (setting acl.source_dir)."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What a command was given."""

    settings: Settings
    options: AclOptions

    @property
    def file(self) -> Path:
        return self.settings.store_path / _FILE


def _wanted(
    *,
    source: Address = None,
    target: Target = None,
    source_access_key: SourceKey = None,
    source_secret_key_file: SourceSecret = None,
    target_access_key: TargetKey = None,
    target_secret_key_file: TargetSecret = None,
    config: ConfigFile = None,
    store_path: StorePath = None,
    include: Include = None,
    exclude: Exclude = None,
    admins: Admins = None,
    deletes: Deletes = None,
    adopt: Adopt = None,
    source_acl_dir: SourceDir = None,
) -> _Wanted:
    given = {
        "source": {
            "namesrv": source,
            "access_key": source_access_key,
            "secret_key_file": source_secret_key_file,
        },
        "target": {
            "namesrv": target,
            "access_key": target_access_key,
            "secret_key_file": target_secret_key_file,
        },
    }
    flags: dict[str, Any] = {
        side: {name: value for name, value in values.items() if value is not None} for side, values in given.items()
    }
    table = {
        "accounts": include,
        "exclude_accounts": exclude,
        "admins": admins,
        "adopt": adopt,
        "source_dir": source_acl_dir,
    }
    flags["acl"] = {name: value for name, value in table.items() if value is not None and value != []}
    others = {"store_path": store_path, "sync_deletes": deletes}
    flags |= {name: value for name, value in others.items() if value is not None}
    settings = load({name: value for name, value in flags.items() if value != {}}, file=config)
    configure(level=settings.log_level)
    own = (settings.source.access_key, settings.target.access_key)
    return _Wanted(settings=settings, options=acl_options(settings.route, own=own))


async def _run(wanted: _Wanted, *, apply: bool) -> tuple[AclPlan, list[Applied], dict[str, Any]]:
    source, target = cluster_of(wanted.settings.source), cluster_of(wanted.settings.target)
    try:
        syncer = AclSyncer(source, target, wanted.options, owned=state_file.read(wanted.file))
        plan = await syncer.plan()
        if not apply:
            return plan, [], syncer.owned
        try:
            return plan, await syncer.apply(plan), syncer.owned
        finally:
            _keep(wanted.file, syncer.owned)
    finally:
        await source.close()
        await target.close()


def _keep(file: Path, owned: dict[str, Any]) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        state_file.write(file, owned)
    except OSError as error:
        raise StartupError(
            f"{file} cannot be written ({error.strerror})", hint="name a directory of ours with --store-path"
        ) from None


def _command(command: Callable[..., None]) -> Callable[..., None]:
    """Gives `command` the options of `_wanted`, whose outcome comes as `wanted`."""
    shared = inspect.signature(_wanted, eval_str=True).parameters
    own = inspect.signature(command, eval_str=True).parameters

    def run(**values: Any) -> None:
        given = {name: values.pop(name) for name in shared}
        command(_wanted(**given), **values)

    parameters = [
        *shared.values(),
        *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for name, each in own.items() if name != "wanted"),
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__doc__ = command.__doc__
    app.command(command.__name__)(run)
    return command


@_command
def plan(wanted: _Wanted, output: Shown = Output.TABLE) -> None:
    """Shows what `apply` would do; changes nothing."""
    made, _, _ = asyncio.run(_run(wanted, apply=False))
    show(made.as_json(), output, _drawn(made))
    _end(made)


@_command
def apply(
    wanted: _Wanted,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask on the first run.")] = False,
    output: Shown = Output.TABLE,
) -> None:
    """Makes the target's accounts those of the source.

    The first run shows its plan and asks; without a terminal it changes nothing and exits with 5. --yes skips that.
    """
    asks = not yes and not wanted.file.exists()
    made, done, _ = asyncio.run(_run(wanted, apply=not asks))
    if asks and made.pending:
        show({**made.as_json(), "applied": []}, output, _drawn(made))
        answers = output is Output.TABLE and sys.stdin.isatty()
        if not (answers and typer.confirm("This is the first run. Apply this plan?")):
            typer.echo("Nothing was changed, since this is the first run: give --yes.", err=True)
            raise typer.Exit(ExitCode.NOT_AS_EXPECTED)
        made, done, _ = asyncio.run(_run(wanted, apply=True))
    drawn = _drawn(made, {id(each.action): each.error or "done" for each in done})
    show({**made.as_json(), "applied": [each.as_json() for each in done]}, output, drawn)
    _end(made, done)


@_command
def status(wanted: _Wanted, output: Shown = Output.TABLE) -> None:
    """How far each broker of the target is from the source."""
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
    told = {
        "source": made.source.value,
        "brokers": rows,
        "unreachable_brokers": made.as_json()["unreachable_brokers"],
    }
    show(told, output, Group(drawn, *_notes(made)))
    _end(made)


def _end(made: AclPlan, done: Sequence[Applied] = ()) -> None:
    """Where brokers were left out, or something could not be done, scripts are to see it."""
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
    return Group(table(columns, rows, empty="the target is as the source"), *_notes(made))


def _notes(made: AclPlan) -> list[Text]:
    return [Text(f"note: {note}", style="dim") for note in made.notes]
