"""`replicator demo`."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from replicator.command_app import CommandApp, completing
from replicator.command_output import Output, Shown
from replicator.demo import clusters, stage
from replicator.sandbox import jars, java
from replicator.sandbox.spec import VERSIONS

__all__ = ["app"]

#: What is possible, in the help and for the shell.
_VERSION: Final[Any] = {"metavar": f"[{'|'.join(VERSIONS)}]", "autocompletion": completing(VERSIONS)}

app = CommandApp()


@app.command()
def demo(
    seconds: Annotated[
        float | None, typer.Option(min=1, help="Stop after this many seconds.", show_default=False)
    ] = None,
    version: Annotated[str, typer.Option(help="RocketMQ version.", **_VERSION)] = "5.3.3",
    output: Shown = Output.TABLE,
) -> None:
    """Start two clusters on this machine, copy orders between them, show it live, and judge the copy at the end.

    As JSON, standard output has the verdict alone.
    """
    clusters.specs(version)  # an unknown version is refused before anything is downloaded
    console = Console(stderr=output is Output.JSON)
    steps = stage.Steps(console)
    java.java()
    jars.ensure(version, console=console)
    steps.say(f"Java and RocketMQ {version} are here")
    running = stage.run(seconds=seconds, version=version, console=console, steps=steps, output=output)
    raise typer.Exit(asyncio.run(running))
