"""`replicator demo`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from replicator.demo import clusters, stage
from replicator.sandbox import jars, java

__all__ = ["app"]

app = typer.Typer(add_completion=False)


@app.command()
def demo(
    seconds: Annotated[
        float | None, typer.Option(min=1, help="End by itself after so many seconds.", show_default=False)
    ] = None,
    version: Annotated[str, typer.Option(help="RocketMQ version: 4.9.7, 5.3.3 or 5.5.0.")] = "5.3.3",
) -> None:
    """Shows it at work: two clusters on this machine, orders flowing, a live view, and a judgement at the end."""
    clusters.specs(version)  # an unknown version is refused before anything is downloaded
    console = Console()
    java.java()
    jars.ensure(version)
    raise typer.Exit(asyncio.run(stage.run(seconds=seconds, version=version, console=console)))
