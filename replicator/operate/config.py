"""`replicator config check`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from acl_sync import files
from replicator.command_app import CommandApp
from replicator.command_output import Output, Shown, show
from replicator.errors import ConfigError, StartupError
from replicator.group.assignment import load_strategy
from replicator.operate.options import ConfigFile, with_settings
from replicator.operate.reports import SettingValue
from replicator.plugins.transforms import chain_of
from replicator.settings import load, origins, setting_fields

__all__ = ["app"]

app = CommandApp(no_args_is_help=True, help="Check the settings.")


@app.callback()
def config() -> None:
    """Check the settings."""  # makes it a group, though it has one command


@app.command("check")
@with_settings
def check(
    flags: Mapping[str, Any],
    config: ConfigFile = None,
    output: Shown = Output.TABLE,
) -> None:
    """Show each setting's value and where it comes from, without connecting to a cluster."""
    settings = load(flags, file=config)
    chain_of(settings.transforms, waiting="pending" in settings.sync)
    load_strategy(settings.assignment)
    _read_accounts(settings.acl.source_dir)
    values = settings.model_dump(mode="json")
    given = origins(flags, file=config)
    rows = [(name, _shown(values, name), given.get(name, "default")) for name, _ in setting_fields()]
    table = Table("setting", Column("value", overflow="fold"), "from", box=None, pad_edge=False)
    for name, value, origin in rows:
        shown = Text("" if value is None else str(value))
        table.add_row(name, shown, Text(origin), style="dim" if origin == "default" else "")
    found = {name: SettingValue(value=value, origin=origin) for name, value, origin in rows}
    show(found, output, table)


def _read_accounts(place: Path | None) -> None:
    if place is not None:
        try:
            files.read(place)
        except StartupError as error:
            raise ConfigError(f"acl.source_dir: {error.message}", hint=error.hint) from None


def _shown(values: Mapping[str, Any], name: str) -> Any:
    value: Any = values
    for part in name.split("."):
        value = value[part]
    return ", ".join(value) if isinstance(value, list) else value
