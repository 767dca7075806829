"""The command line. Commands only: what they do is elsewhere."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, TextIO

import typer

from replicator import __version__
from replicator.command_app import CommandApp, DeferredCommand, DeferredGroup, extra_of
from replicator.errors import ConfigError, ReplicatorError
from replicator.exit_codes import ExitCode
from replicator.lean_import import lean_import
from replicator.observe.printable import one_line
from replicator.operate.options import ConfigFile, flag_of, with_settings
from replicator.settings import leaves, load
from replicator.settings.mistakes import way_out
from replicator.settings.shown import shown, without_user_info

__all__ = ["app", "main"]


#: What the user typed wrong: typer names only this one of its kinds.
_Misuse: Final[type[typer.BadParameter]] = typer.BadParameter.__bases__[0]
#: That of a group without a command, by its name; its message is the group's help.
_HELP: Final = "NoArgsIsHelpError"


class _Commands(DeferredGroup):
    """All of them are deferred, so that a worker and each command start sooner."""

    deferred: ClassVar = {
        "acl": DeferredCommand("replicator.operate.acl", "app", "Sync accounts and permissions to the target."),
        "allocated": DeferredCommand(
            "replicator.operate.workers.commands", "allocated", "Show which worker runs which task."
        ),
        "apply": DeferredCommand(
            "replicator.operate.workers.sync", "apply", "Apply what `plan` shows now, except what is blocked."
        ),
        "backfill": DeferredCommand(
            "replicator.operate.jobs.backfill", "app", "Copy what the source has now, by Spark."
        ),
        "brokers": DeferredCommand(
            "replicator.operate.workers.brokers", "brokers", "List brokers, and forget permanently removed ones."
        ),
        "cluster": DeferredCommand(
            "replicator.operate.workers.commands", "cluster", "List the workers of the group."
        ),
        "completion": DeferredCommand(
            "replicator.operate.completion", "completion", "Print the completion of a shell."
        ),
        "config": DeferredCommand("replicator.operate.config", "app", "Check the settings."),
        "connectors": DeferredCommand(
            "replicator.operate.workers.commands", "connectors", "List, create and control connectors."
        ),
        "demo": DeferredCommand(
            "replicator.demo.command", "app", "Start two clusters, copy orders, and show it live."
        ),
        "doctor": DeferredCommand("replicator.operate.doctor.command", "app", "Check all that a route needs."),
        "export": DeferredCommand(
            "replicator.operate.jobs.export", "app", "Write topics as Parquet files, by Spark."
        ),
        "failback": DeferredCommand(
            "replicator.operate.workers.reverse",
            "failback",
            "Switch applications back to the source, and copy to the target again from then on.",
        ),
        "failover": DeferredCommand(
            "replicator.operate.workers.sync",
            "failover",
            "Switch applications to the target: copy the rest, sync the last offsets, make topics writable.",
        ),
        "import": DeferredCommand(
            "replicator.operate.jobs.restore", "app", "Send exported topics to a cluster, by Spark."
        ),
        "lag": DeferredCommand("replicator.operate.workers.commands", "lag", "Show how far behind each topic is."),
        "plan": DeferredCommand(
            "replicator.operate.workers.sync",
            "plan",
            "Show what `apply` would change in the target's topics, groups and offsets.",
        ),
        "plugins": DeferredCommand(
            "replicator.operate.workers.commands", "plugins", "List connector plugins and show their settings."
        ),
        "readiness": DeferredCommand(
            "replicator.operate.workers.sync",
            "readiness",
            "Show whether applications can switch to the target now, and what they would miss.",
        ),
        "reverse": DeferredCommand(
            "replicator.operate.workers.reverse",
            "reverse",
            "Switch applications to the target, and copy back to the source from then on.",
        ),
        "run": DeferredCommand("replicator.operate.run", "app", "Copy topics, as without a command."),
        "sandbox": DeferredCommand(
            "replicator.sandbox.commands", "app", "Run real RocketMQ clusters on this machine."
        ),
        "secret": DeferredCommand("replicator.operate.secret", "app", "Make a secret for the workers of a group."),
        "spark-package": DeferredCommand(
            "replicator.operate.jobs.package", "app", "Pack what Spark's executors need."
        ),
        "top": DeferredCommand(
            "replicator.operate.workers.commands",
            "top",
            "Show the group live until Ctrl-C; once with -o json or when piped, after two seconds that rates take.",
        ),
        "verify": DeferredCommand("replicator.operate.jobs.verify", "app", "Compare source and target, by Spark."),
        "version": DeferredCommand(
            "replicator.operate.version", "version", "Show the version of this program, and of Python and PySpark."
        ),
        "where": DeferredCommand(
            "replicator.operate.workers.commands",
            "where",
            "Show where a message is on the other side: the one at BROKER QUEUE OFFSET, or those with a key.",
        ),
    }


app = CommandApp(cls=_Commands, add_completion=True, pretty_exceptions_enable=False)


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
        raise typer.Exit(lean_import("replicator.service").run(load(flags, file=config)))


class _StandardOutput(io.FileIO):
    """Where commands print. What cannot be written is said once: the work is done, and the exit code says how."""

    def __init__(self, file: int | str, lost: str = "") -> None:
        super().__init__(file, "wb", closefd=isinstance(file, str))
        self._reason, self._lost = lost, False

    def write(self, data: Any, /) -> int:
        if not self._reason:
            try:
                return super().write(data)
            except BrokenPipeError:  # the reader wants no more, as `head` does
                self._reason, self._lost = "is closed by its reader", True
                raise SystemExit(ExitCode.OUTPUT_CLOSED) from None
            except OSError as error:
                self._reason = f"cannot be written ({error.strerror})"
        if not self._lost:
            self._lost = True
            _print_error(f"standard output {self._reason}, so what the command prints is lost")
        return len(data)


def _keep_exit_codes() -> None:
    """Output that is lost on its way, as where a disk is full, does not end a command.

    What is closed is opened again, so that its number is given to no file that matters.
    """
    now: TextIO | None = sys.stdout
    errors: TextIO | None = sys.stderr
    if errors is None:
        sys.stderr = _nowhere()
    if now is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(_StandardOutput(os.devnull, "is closed")), "utf-8")
    else:
        raw = io.BufferedWriter(_StandardOutput(now.fileno()))
        sys.stdout = io.TextIOWrapper(raw, now.encoding, now.errors, line_buffering=now.isatty())


def main() -> None:
    """Runs the command line; each mistake is reported in one line, without a traceback."""
    _keep_exit_codes()
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except _Misuse as error:
        if type(error).__name__ == _HELP:
            print(error.format_message(), file=sys.stderr)
        elif error.format_message():  # typer before 0.26 has shown the help already
            _print_error(_of_misuse(error))
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        if (extra := extra_of(error)) is None:
            raise
        _print_error(f"{error.name} is not installed: {lean_import('replicator.extras').install_command(extra)}")
        sys.exit(ExitCode.UNUSABLE)
    except ReplicatorError as error:
        for line in _lines(error):
            _print_error(line)
        sys.exit(error.exit_code)


def _of_misuse(error: Any) -> str:
    """What is wrong with an option or argument; where its value is, with what to give instead."""
    parameter, problems = getattr(error, "param", None), getattr(error.__cause__, "errors", None)
    if parameter is None or problems is None:
        return str(error.format_message())
    problem = problems()[0]
    name = next((name for name in parameter.opts if name.startswith("--")), parameter.metavar)
    return f"{name}{shown(problem['input'])}: {way_out(problem)}"


def _print_error(line: str) -> None:
    """Where the disk that takes it is full, the exit code still says what is wrong: supervisors go by it."""
    try:
        print(f"replicator: {one_line(without_user_info(line))}", file=sys.stderr)
    except OSError:
        sys.stderr = _nowhere()  # else Python itself ends with 120


def _nowhere() -> TextIO:
    return open(os.devnull, "w")  # noqa: PTH123 - it stays open as long as the process runs


def _lines(error: ReplicatorError) -> Iterator[str]:
    yield from str(error).splitlines()
