"""`replicator acl plan | apply | status`: accounts and rights, without a running worker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from acl_sync import AclOptions, AclPlan, AclSyncer, Applied
from replicator.client.cluster import Cluster
from replicator.errors import StartupError
from replicator.observe.logging import configure
from replicator.operate.show import Output, show, table
from replicator.runtime import files
from replicator.service import security_of
from replicator.settings import ClusterSettings, Settings, load

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
Config = Annotated[
    Path | None,
    typer.Option("--config", envvar="REPLICATOR_CONFIG", help="TOML file with settings.", show_default=False),
]
StorePath = Annotated[
    str | None, _option("--store-path", f"Directory of {_FILE}: which accounts at the target are ours.")
]
Include = Annotated[list[str] | None, _option("--include", "Accounts to sync: names or regular expressions.")]
Exclude = Annotated[list[str] | None, _option("--exclude", "Accounts not to sync; wins over --include.")]
Admins = Annotated[bool, typer.Option("--admins", help="Sync admins and Super users too.")]
Deletes = Annotated[bool, typer.Option("--deletes", help="Delete what we created and the source lost.")]
Adopt = Annotated[bool, typer.Option("--adopt", help="Change accounts that were at the target before us.")]
SourceDir = Annotated[
    Path | None,
    _option("--source-acl-dir", "Read ACL 1.0 from plain_acl.yml and acl/ in this directory."),
]
Shown = Annotated[Output, typer.Option("--output", help="How to show it.")]


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
    source: str | None,
    target: str | None,
    source_access_key: str | None,
    source_secret_key_file: str | None,
    target_access_key: str | None,
    target_secret_key_file: str | None,
    config: Path | None,
    store_path: str | None,
    include: list[str] | None,
    exclude: list[str] | None,
    admins: bool,
    deletes: bool,
    adopt: bool,
    source_acl_dir: Path | None,
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
    if store_path is not None:
        flags["store_path"] = store_path
    settings = load({name: value for name, value in flags.items() if value}, file=config)
    configure(level=settings.log_level)
    sides = (settings.source, settings.target)
    options = AclOptions(
        include=tuple(include or (".*",)),
        exclude=tuple(exclude or ()),
        own=frozenset(side.access_key for side in sides if side.access_key is not None),
        admins=admins,
        deletes=deletes,
        adopt=adopt,
        source_dir=source_acl_dir,
    )
    return _Wanted(settings=settings, options=options)


def _cluster(settings: ClusterSettings) -> Cluster:
    return Cluster(settings.namesrv, security=security_of(settings), name=settings.cluster)


async def _run(wanted: _Wanted, *, apply: bool) -> tuple[AclPlan, list[Applied], dict[str, Any]]:
    source, target = _cluster(wanted.settings.source), _cluster(wanted.settings.target)
    try:
        syncer = AclSyncer(source, target, wanted.options, owned=files.read(wanted.file))
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
        files.write(file, owned)
    except OSError as error:
        raise StartupError(
            f"{file} cannot be written ({error.strerror})", hint="name a directory of ours with --store-path"
        ) from None


@app.command("plan")
def plan_command(
    source: Address = None,
    target: Target = None,
    source_access_key: SourceKey = None,
    source_secret_key_file: SourceSecret = None,
    target_access_key: TargetKey = None,
    target_secret_key_file: TargetSecret = None,
    config: Config = None,
    store_path: StorePath = None,
    include: Include = None,
    exclude: Exclude = None,
    admins: Admins = False,
    deletes: Deletes = False,
    adopt: Adopt = False,
    source_acl_dir: SourceDir = None,
    output: Shown = Output.TABLE,
) -> None:
    """Shows what `apply` would do; changes nothing."""
    given = dict(locals())
    given.pop("output")
    plan, _, _ = asyncio.run(_run(_wanted(**given), apply=False))
    show(plan.as_json(), output, _drawn(plan))


@app.command("apply")
def apply_command(
    source: Address = None,
    target: Target = None,
    source_access_key: SourceKey = None,
    source_secret_key_file: SourceSecret = None,
    target_access_key: TargetKey = None,
    target_secret_key_file: TargetSecret = None,
    config: Config = None,
    store_path: StorePath = None,
    include: Include = None,
    exclude: Exclude = None,
    admins: Admins = False,
    deletes: Deletes = False,
    adopt: Adopt = False,
    source_acl_dir: SourceDir = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do so on the first run too.")] = False,
    output: Shown = Output.TABLE,
) -> None:
    """Makes the target's accounts those of the source. The first run only shows the plan, without --yes."""
    given = {name: value for name, value in locals().items() if name not in ("yes", "output")}
    wanted = _wanted(**given)
    first = not yes and not wanted.file.exists()
    plan, done, _ = asyncio.run(_run(wanted, apply=not first))
    failed = {id(each.action): each.error for each in done if each.error}
    shown = {**plan.as_json(), "applied": [each.as_json() for each in done]}
    rows: list[RenderableType] = [_drawn(plan, failed, done=not first)]
    if first:
        rows.append(Text("Nothing was changed, since this is the first run: give --yes.", style="yellow"))
    show(shown, output, Group(*rows))
    if failed:
        raise typer.Exit(1)


@app.command("status")
def status_command(
    source: Address = None,
    target: Target = None,
    source_access_key: SourceKey = None,
    source_secret_key_file: SourceSecret = None,
    target_access_key: TargetKey = None,
    target_secret_key_file: TargetSecret = None,
    config: Config = None,
    store_path: StorePath = None,
    include: Include = None,
    exclude: Exclude = None,
    admins: Admins = False,
    deletes: Deletes = False,
    adopt: Adopt = False,
    source_acl_dir: SourceDir = None,
    output: Shown = Output.TABLE,
) -> None:
    """How far each broker of the target is from the source."""
    given = dict(locals())
    given.pop("output")
    plan, _, owned = asyncio.run(_run(_wanted(**given), apply=False))
    rows = [
        {
            "broker": broker,
            "acl": dialect.value,
            "ours": len(owned.get(broker, {}).get("accounts", {})),
            "pending": sum(action.broker == broker for action in plan.pending),
            "blocked": sum(action.broker == broker for action in plan.blocked),
        }
        for broker, dialect in plan.targets.items()
    ]
    columns = ("broker", "acl", "ours", "pending", "blocked")
    drawn = table(columns, [[row[name] for name in columns] for row in rows], empty="no broker")
    show({"source": plan.source.value, "brokers": rows}, output, Group(drawn, *_notes(plan)))


def _drawn(plan: AclPlan, failed: dict[int, str] | None = None, *, done: bool = False) -> RenderableType:
    failed = failed or {}
    rows: Sequence[Sequence[Any]] = [
        [
            action.broker,
            action.verb.value,
            action.account,
            "\n".join(action.changes),
            f"not done: {action.blocked}" if action.blocked else failed.get(id(action), "done" if done else ""),
        ]
        for action in plan.actions
    ]
    columns = ("broker", "action", "account", "changes", "state")
    return Group(table(columns, rows, empty="the target is as the source"), *_notes(plan))


def _notes(plan: AclPlan) -> list[Text]:
    return [Text(f"note: {note}", style="dim") for note in plan.notes]
