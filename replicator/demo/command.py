"""`replicator demo`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from replicator.command_app import CommandApp
from replicator.command_output import Output, Shown
from replicator.demo import clusters, stage
from replicator.sandbox import jars, java

__all__ = ["app"]

app = CommandApp()


@app.command()
def demo(
    seconds: Annotated[
        float | None, typer.Option(min=1, help="Stop after this many seconds.", show_default=False)
    ] = None,
    version: Annotated[str, typer.Option(help="RocketMQ version: 4.9.7, 5.3.3 or 5.5.0.")] = "5.3.3",
    output: Shown = Output.TABLE,
) -> None:
    """Start two clusters on this machine, copy orders between them, show it live, and judge the copy at the end.

    As JSON, standard output has the verdict alone.
    """
    clusters.specs(version)  # an unknown version is refused before anything is downloaded
    console = Console(stderr=output is Output.JSON)
    java.java()
    jars.ensure(version)
    raise typer.Exit(asyncio.run(stage.run(seconds=seconds, version=version, console=console, output=output)))
