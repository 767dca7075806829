"""`replicator verify`: not there yet."""

import typer

app = typer.Typer()
