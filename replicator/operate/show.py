"""Tables of what a worker answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from replicator.command_output import separator
from replicator.observe.printable import one_line

__all__ = ["cell", "cluster_table", "lag_table", "table"]

_STYLES: Final = {
    "running": "green",
    "online": "green",
    "failed": "bold red",
    "waiting": "yellow",
    "stalled": "red",
}


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, empty: str) -> RenderableType:
    """A table, or `empty` if it has no rows."""
    if not rows:
        return Text(empty, style="dim")
    drawn = Table(*(Column(name, overflow="fold") for name in columns), box=None, pad_edge=False)
    for row in rows:
        drawn.add_row(*(cell(value) for value in row))
    return drawn


def cell(value: Any, comma: str | None = None) -> Text:
    """A value as tables show it; `comma` stands between the thousands of a number, if not as the output has it.

    A number that is typed again elsewhere, as an offset is, is given as text.
    """
    comma = separator() if comma is None else comma
    if isinstance(value, bool):
        value = "yes" if value else ""
    if isinstance(value, float):
        value = f"{value:{comma}.1f}"
    text = f"{value:{comma}}" if isinstance(value, int) else one_line("" if value is None else str(value))
    return Text(text, style=_STYLES.get(text.lower(), ""))


def cluster_table(cluster: Mapping[str, Any]) -> RenderableType:
    """The workers of a group."""
    names = ("worker_id", "address", "version", "state", "tasks", "leader", "takes_tasks", "waiting_for")
    return table(
        ("worker", "REST", "version", "state", "tasks", "leader", "takes tasks", "waits for"),
        [[worker[name] for name in names] for worker in cluster["workers"]],
        empty="no worker",
    )


def lag_table(connectors: Mapping[str, Any]) -> RenderableType:
    """The topics of all connectors."""
    rows = [
        [
            name,
            topic["topic"],
            "stalled" if topic["stalled"] else topic["state"],
            topic["lag_messages"],
            topic["lag_seconds"],
            topic["copied"],
            topic["verified_age_seconds"],
            topic["audit_differences"],
            topic["reason"],
        ]
        for name, found in connectors.items()
        for topic in found["status"]["topics"]
    ]
    columns = ("connector", "topic", "state", "lag", "lag s", "copied", "unverified s", "differ", "reason")
    return table(columns, rows, empty="nothing is copied yet")
