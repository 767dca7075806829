"""Writes docs/man/replicator.1 from the program itself; a test compares the two."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from typer.main import get_command

from replicator import __version__
from replicator.cli import app
from replicator.exit_codes import MEANINGS
from replicator.operate.options import flag_of, has_flag
from replicator.settings import ENV_PREFIX, SECTIONS, section_of, setting_fields
from tools.cli_page import is_setting

PAGE = Path(__file__).parent.parent / "docs" / "man" / "replicator.1"

#: Flags of every command, or of the shell: described nowhere.
_COMMON: Final = frozenset({"--help", "--install-completion", "--show-completion"})


def page() -> str:
    """The whole page."""
    return "\n".join([*_head(), *_commands(), *_settings(), *_tail()]) + "\n"


def _head() -> Iterator[str]:
    yield f'.TH REPLICATOR 1 "" "rocketmq-replicator {__version__}" "User Commands"'
    yield ".SH NAME"
    yield r"replicator \- copy topics from one Apache RocketMQ cluster to another"
    yield ".SH SYNOPSIS"
    yield r".B replicator \-\-source"
    yield r".I host:port"
    yield r".B \-\-target"
    yield ".I host:port"
    yield r"[\fIsettings\fR]"
    yield ".br"
    yield ".B replicator"
    yield r"\fIcommand\fR [\fIarguments\fR]"
    yield ".SH DESCRIPTION"
    yield "Without a command it runs a worker, which copies until it is stopped. Each command has"
    yield r".BR \-\-help ."


def _commands() -> Iterator[str]:
    yield ".SH COMMANDS"
    root = get_command(app)
    for name in root.list_commands(None):  # type: ignore[attr-defined]
        yield from _command(name, root.get_command(None, name))  # type: ignore[attr-defined]


def _command(name: str, command: Any) -> Iterator[str]:
    """A command with its own arguments and options, or its subcommands."""
    if hasattr(command, "list_commands"):
        for each in command.list_commands(None):
            yield from _command(f"{name} {each}", command.get_command(None, each))
        return
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and not _COMMON & {*each.opts}]
    words = " ".join(each.name.upper() for each in arguments)
    yield f'.SS "{_text(f"{name} {words}".strip())}"'
    yield _text(command.help)
    for each in arguments:
        yield from _item(rf"\fI{_text(each.name.upper())}\fR", each.help)
    for each in options:
        if not is_setting(f"replicator {name}", each.opts[0]):
            yield from _item(", ".join(rf"\fB{_text(flag)}\fR" for flag in each.opts), each.help)
    if any(is_setting(f"replicator {name}", each.opts[0]) for each in options):
        yield ".PP"
        yield "Settings are options, too: see SETTINGS."


def _settings() -> Iterator[str]:
    yield ".SH SETTINGS"
    yield f"Each is a flag, a TOML key and an environment variable: {_text('--on-error')}, on_error, {ENV_PREFIX}ON_ERROR."
    yield "Secrets have no flag."
    for section in SECTIONS:
        yield f'.SS "{_text(section)}"'
        for name, field in setting_fields():
            if section_of(name) == section:
                shown = flag_of(name) if has_flag(name) else name
                yield from _item(rf"\fB{_text(shown)}\fR", field.description)


def _tail() -> Iterator[str]:
    yield ".SH EXIT STATUS"
    for code, meaning in MEANINGS.items():
        yield from _item(f"{code:d}", meaning.replace("`", ""))
    yield ".SH SEE ALSO"
    yield "The documentation of the project: README.md, docs/FIRST_STEPS.md, docs/CONFIG.md, docs/CLI.md, docs/RUNBOOK.md."


def _item(term: str, text: str | None) -> Iterator[str]:
    yield ".TP"
    yield term
    yield _text(text) or r"\&"


def _text(text: str | None) -> str:
    """One line of running text."""
    plain = " ".join((text or "").replace("`", "").split()).replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^([.'])", r"\\&\1", plain)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
