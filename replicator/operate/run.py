"""`replicator run`: a worker, as without a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from replicator import service
from replicator.command_app import CommandApp
from replicator.operate.options import ConfigFile, with_settings
from replicator.settings import load

__all__ = ["app"]

app = CommandApp()


@app.command()
@with_settings
def run(flags: Mapping[str, Any], config: ConfigFile = None) -> None:
    """Copy topics from one RocketMQ cluster to another, until stopped: the same as `replicator` without a command.

    With --engine spark, Spark's tasks copy the messages.
    """
    raise typer.Exit(service.run(load(flags, file=config)))
