"""What commands print: tables for people, JSON for scripts. The JSON of each command is described by a model."""

from __future__ import annotations

import json
import os
import sys
from enum import StrEnum
from typing import Annotated, Any, Final

import typer
from pydantic import BaseModel, ConfigDict
from pydantic_core import to_jsonable_python
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from replicator.observe.printable import printable

__all__ = ["Output", "Report", "Shown", "separator", "show"]

#: Width of output that does not go to a terminal.
_PIPED: Final = 10_000


class Output(StrEnum):
    """The form of a result: for people, or for scripts."""

    TABLE = "table"
    JSON = "json"


#: `--output`.
Shown = Annotated[Output, typer.Option("--output", "-o", help="Output format.")]


class Report(BaseModel):
    """The JSON of a command whose result is not an answer of REST."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


def separator() -> str:
    """What stands between thousands: a comma for people at a terminal, nothing for programs behind a pipe."""
    return "," if sys.stdout.isatty() else ""


def show(found: Any, output: Output, drawn: RenderableType) -> None:
    """Shows `found`, of reports and answers of REST, as JSON, or `drawn` as a table."""
    if output is Output.JSON:
        # Not by a console, to which a value such as `order:id:42` has a name of an emoji. A reader that has gone is
        # noticed here, while it is still told apart from a mistake.
        print(json.dumps(to_jsonable_python(found), indent=2), flush=True)
        return
    # If the width of the output is not known, rows must not wrap: scripts read them line by line.
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPED
    console = Console(width=width, emoji=False)
    console.print(_Printable(drawn), soft_wrap=isinstance(drawn, Text))  # a line is there to be copied whole


class _Printable:
    """What is `drawn`, with nothing in its texts that would change what a terminal shows: it may be others'."""

    def __init__(self, drawn: RenderableType) -> None:
        self._drawn = drawn

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text, style, control in console.render(self._drawn, options):
            yield Segment(text if control else printable(text), style, control)
