"""`replicator completion`: what a shell needs to complete commands, options and their values."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]  # `--show-completion` uses it

__all__ = ["completion"]

_PROGRAM = "replicator"


class Shell(StrEnum):
    """The shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.", metavar="SHELL")]) -> None:
    """Print the completion of a shell.

    It completes commands, options and the values of many.
    bash: add `eval "$(replicator completion bash)"` to ~/.bashrc. zsh: likewise in ~/.zshrc, behind compinit.
    fish: write it to ~/.config/fish/completions/replicator.fish.
    """
    script = get_completion_script(
        prog_name=_PROGRAM, complete_var=f"_{_PROGRAM.upper()}_COMPLETE", shell=shell.value
    )
    typer.echo(script.strip())
