"""The command line. Commands only: what they do is elsewhere."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Annotated, Any, ClassVar, Final

import typer
from rich.table import Column, Table
from rich.text import Text

from replicator import __version__
from replicator.command_app import CommandApp, DeferredCommand, DeferredGroup, extra_of
from replicator.command_output import Output, Shown, show
from replicator.errors import ConfigError, ReplicatorError
from replicator.exit_codes import ExitCode
from replicator.observe.logging import configure
from replicator.operate import add_commands
from replicator.operate.options import ConfigFile, flag_of, with_settings
from replicator.operate.reports import SettingValue
from replicator.plugins.transforms import chain_of
from replicator.settings import leaves, load, origins, setting_fields

__all__ = ["app", "main"]


#: What the user typed wrong: typer names only this one of its kinds.
_Misuse: Final[type[typer.BadParameter]] = typer.BadParameter.__bases__[0]


class _Commands(DeferredGroup):
    """Those that no worker needs are deferred, so that a worker starts sooner."""

    deferred: ClassVar = {
        "acl": DeferredCommand("replicator.operate.acl", "Sync accounts and permissions to the target."),
        "backfill": DeferredCommand("replicator.operate.backfill", "Copy what the source has now, by Spark."),
        "demo": DeferredCommand("replicator.demo.command", "Start two clusters, copy orders, and show it live."),
        "doctor": DeferredCommand("replicator.operate.doctor.command", "Check all that a route needs."),
        "export": DeferredCommand("replicator.operate.export", "Write topics as Parquet files, by Spark."),
        "import": DeferredCommand("replicator.operate.restore", "Send exported topics to a cluster, by Spark."),
        "run": DeferredCommand("replicator.operate.run", "Copy topics, as without a command."),
        "sandbox": DeferredCommand("replicator.sandbox.commands", "Run real RocketMQ clusters on this machine."),
        "secret": DeferredCommand("replicator.operate.secret", "Make a secret for the workers of a group."),
        "spark-package": DeferredCommand("replicator.operate.package", "Pack what Spark's executors need."),
        "verify": DeferredCommand("replicator.operate.verify", "Compare source and target, by Spark."),
    }


app = CommandApp(cls=_Commands, add_completion=True, pretty_exceptions_enable=False)
config_app = CommandApp(no_args_is_help=True, help="Check the settings.")
app.add_typer(config_app, name="config")
add_commands(app)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"rocketmq-replicator {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
@with_settings
def replicate(
    context: typer.Context,
    flags: Mapping[str, Any],
    config: ConfigFile = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Copy topics from one RocketMQ cluster to another, until stopped.

    Give --source and --target, each the address of a name server: host:port.
    """
    if context.invoked_subcommand is not None:
        given = [flag_of(name) for name in leaves(flags)]
        source = context.get_parameter_source("config")
        if source is not None and source.name == "COMMANDLINE":
            given.append("--config")
        if given:
            raise ConfigError(
                f"{', '.join(given)} before `{context.invoked_subcommand}` would do nothing",
                hint="give it behind the command",
            )
    else:
        settings = load(flags, file=config)
        configure(level=settings.log_level)
        raise typer.Exit(_service().run(settings))


def _service() -> ModuleType:
    """All that a worker is made of: three quarters of what the command could import, so no other command does."""
    gc.disable()  # as in `__main__`
    from replicator import service  # noqa: PLC0415

    gc.freeze()
    gc.enable()
    return service


@config_app.command("check")
@with_settings
def check(
    flags: Mapping[str, Any],
    config: ConfigFile = None,
    output: Shown = Output.TABLE,
) -> None:
    """Show each setting's value and where it comes from, without connecting to a cluster."""
    settings = load(flags, file=config)
    chain_of(settings.transforms)
    values = settings.model_dump(mode="json")
    given = origins(flags, file=config)
    rows = [(name, _shown(values, name), given.get(name, "default")) for name, _ in setting_fields()]
    table = Table("setting", Column("value", overflow="fold"), "from")
    for name, value, origin in rows:
        shown = Text("" if value is None else str(value))
        table.add_row(name, shown, Text(origin), style="dim" if origin == "default" else "")
    found = {name: SettingValue(value=value, origin=origin) for name, value, origin in rows}
    show(found, output, table)


def _shown(values: Mapping[str, Any], name: str) -> Any:
    value: Any = values
    for part in name.split("."):
        value = value[part]
    return ", ".join(value) if isinstance(value, list) else value


def main() -> None:
    """Runs the command line; a mistake is told in one line each, without a traceback."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except _Misuse as error:
        if not error.format_message():  # a group without a command, which has shown its help
            sys.exit(error.exit_code)
        print(f"replicator: {error.format_message()}", file=sys.stderr)
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        if (extra := extra_of(error)) is None:
            raise
        print(
            f"replicator: {error.name} is not installed: pip install 'rocketmq-replicator[{extra}]'",
            file=sys.stderr,
        )
        sys.exit(ExitCode.UNUSABLE)
    except ReplicatorError as error:
        for line in _lines(error):
            print(f"replicator: {line}", file=sys.stderr)
        sys.exit(ExitCode.BAD_CONFIG if isinstance(error, ConfigError) else ExitCode.UNUSABLE)


def _lines(error: ReplicatorError) -> Iterator[str]:
    yield from str(error).splitlines()
