"""Settings as flags of commands, under the same names everywhere."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from replicator.command_app import completing
from replicator.settings import SECTIONS, is_size, section_of, setting_fields
from replicator.settings.defaults import default_text

__all__ = ["SELECTION", "ConfigFile", "MetricsPort", "flag_of", "has_flag", "is_of", "with_settings"]

#: The route's settings that select the messages to copy, and name the target topic.
SELECTION: Final = ("topics", "exclude_topics", "rename", "start_from", "tags", "sql", "forward")

#: Sections of help are in this order.
_ORDER: Final = tuple(SECTIONS)
_METAVARS: Final = {list: "LIST", int: "N", float: "SECONDS", Path: "PATH"}

Command = Callable[..., None]


def flag_of(name: str) -> str:
    return "--" + name.removesuffix(".namesrv").replace(".", "-").replace("_", "-")


def has_flag(name: str) -> bool:
    """Whether a setting may be given as a flag: a secret would be visible in the list of processes."""
    return not name.endswith(("secret_key", "token", "password"))


def with_settings(
    command: Command, *, only: Collection[str] = (), clusters: Collection[str] = ("source", "target")
) -> Command:
    """Adds a flag for each setting to `command`, which gets the given ones as one nested mapping, `flags`.

    Args:
        only: names of settings; only those, and the settings of `clusters`, have a flag then.

    Raises:
        ValueError: `only` names something that is not a setting.
    """
    if unknown := {*only} - {part for name, _ in setting_fields() for part in (name, name.partition(".")[0])}:
        raise ValueError(f"not settings: {sorted(unknown)}")
    fields = [(name, field) for name, field in setting_fields() if not only or is_of(name, only, clusters)]
    names = {name.replace(".", "__"): name for name, _ in fields}
    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "flags"]
    options = [
        inspect.Parameter(
            name.replace(".", "__"), inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(name, field)
        )
        for name, field in sorted(fields, key=lambda each: _ORDER.index(section_of(each[0])))
        if has_flag(name)
    ]

    def run(**values: Any) -> None:
        flags: dict[str, Any] = {}
        for key, name in names.items():
            value = values.pop(key, None)
            if value is not None:
                _put(flags, name.split("."), value)
        command(**values, flags=flags)

    parameters = [*(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own), *options]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def is_of(name: str, only: Collection[str], clusters: Collection[str] = ("source", "target")) -> bool:
    """Whether a setting is among `only`, or one of `clusters`."""
    chosen = {*only, *clusters}
    return name in chosen or name.partition(".")[0] in chosen


def _option(name: str, field: FieldInfo) -> Any:
    flag, kind = flag_of(name), str if field.annotation not in (bool, bool | None) else bool
    extra: dict[str, Any] = {}
    if kind is bool:
        flag = f"{flag}/--no-{flag[2:]}"
    elif choices := _choices(field.annotation):
        extra = {"metavar": f"[{'|'.join(choices)}]", "autocompletion": completing(choices)}
    else:
        extra = {"metavar": _metavar(field)}
        if get_origin(field.annotation) is list and (choices := _choices(*get_args(field.annotation))):
            extra["autocompletion"] = completing(choices, several=True)
    default = default_text(field)
    text = f"{field.description} [default: {default}]" if default else f"{field.description}"
    option = typer.Option(flag, help=text, show_default=False, rich_help_panel=section_of(name), **extra)
    return Annotated[kind | None, option]


def _choices(annotation: Any) -> tuple[str, ...]:
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _metavar(field: FieldInfo) -> str:
    if is_size(field):
        return "SIZE"
    if any(getattr(each, "le", None) == 1 for each in field.metadata):
        return "SHARE"
    kinds = {*(get_args(field.annotation) or [field.annotation]), get_origin(field.annotation)} - {type(None)}
    return next((word for kind, word in _METAVARS.items() if kind in kinds), "TEXT")


def _put(values: dict[str, Any], path: list[str], value: object) -> None:
    for name in path[:-1]:
        values = values.setdefault(name, {})
    values[path[-1]] = value


#: `--config`.
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", envvar="REPLICATOR_CONFIG", help="TOML file with settings.", show_default=False),
]

#: `--metrics-port`.
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        min=1,
        max=65535,
        help="Serve /metrics on this port while the command runs.",
        show_default=False,
    ),
]
