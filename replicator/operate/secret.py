"""`replicator secret`: a secret for the workers of a group."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from replicator.command_app import CommandApp
from replicator.settings.secret_file import write_secret

__all__ = ["app"]

app = CommandApp()


@app.command()
def secret(file: Annotated[Path, typer.Argument(help="The new file, which only you can read.")]) -> None:
    """Make a secret in a new file, for worker_group_secret_file or a token of REST."""
    write_secret(file)
    typer.echo(
        f"{file} has a new secret: copy it to all workers of the group, and set worker_group_secret_file to it"
    )
