"""`replicator backfill`: what the source has now, copied by Spark; a live route goes on behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Group
from rich.text import Text

from replicator.observe.logging import configure
from replicator.operate.manifest import Manifest
from replicator.operate.options import SELECTION, ConfigFile, Master, with_settings
from replicator.operate.show import Output, Shown, progress, show, table
from replicator.operate.survey import surveying
from replicator.settings import Settings, load
from replicator.spark.backfill import copy_all
from replicator.spark.copying import Copied, CopyJob
from replicator.spark.session import session

__all__ = ["SETTINGS", "app"]

_FILE: Final = "backfill.json"

#: The route's settings that mean something without a route.
SETTINGS: Final = (
    *SELECTION,
    "born_timestamp",
    "on_error",
    "on_gap",
    "dead_letter_topic",
    "rate_messages",
    "rate_bytes",
    "batch_messages",
    "batch_bytes",
    "pulls_in_flight",
    "memory_bytes",
    "connector",
    "group",
    "source_online_topic",
    "session_timeout",
    "settle_seconds",
    "stall_seconds",
    "store_path",
    "log_level",
)

app = typer.Typer(help="Copy what the source has now, by Spark.")

ManifestFile = Annotated[
    Path | None,
    typer.Option(help=f"File of ranges and outcomes (default: {_FILE} in store_path).", show_default=False),
]


@app.command()
@partial(with_settings, only=SETTINGS)
def backfill(
    flags: Mapping[str, Any],
    config: ConfigFile = None,
    manifest: ManifestFile = None,
    master: Master = None,
    output: Shown = Output.TABLE,
) -> None:
    """Copies what the source has now, by Spark; a live route goes on behind it.

    Run again it goes on where it was. Exit code 1: some queue is not copied to its end.
    """
    settings = load(flags, file=config)
    configure(level=settings.log_level)
    made, job = asyncio.run(_plan(settings, manifest or settings.store_path / _FILE))
    if made.open:
        with session(master=master) as spark, _progress(made) as (on_copied, on_look):
            copy_all(spark, job, made.open, on_copied=on_copied, on_look=on_look)
    _show(made, output)
    if made.open or any(outcome.repeated for outcome in made.outcomes.values()):
        raise typer.Exit(1)


async def _plan(settings: Settings, file: Path) -> tuple[Manifest, CopyJob]:
    async with surveying(settings, writes=True) as survey:
        identity = survey.world.identity
        made = Manifest.read(file, settings, identity)
        if made is None or made.open:
            await survey.refuse_live_route()
        if made is None:
            await survey.make_ready()
            made = Manifest.begin(file, settings, identity, await survey.ranges())
        return made, survey.job


@contextmanager
def _progress(made: Manifest) -> Iterator[tuple[Callable[[Copied], None], Callable[[int], None]]]:
    """What the copy calls with each outcome, and with the messages that have come; drawn on a terminal only."""
    left = sum(part.end - part.start for part in made.open)
    with progress() as drawn:
        messages, queues = drawn.add_task("messages", total=left), drawn.add_task("queues", total=len(made.open))

        def copied(outcome: Copied) -> None:
            made.add(outcome)
            drawn.advance(queues)

        yield copied, lambda moved: drawn.update(messages, completed=min(moved, left))


def _show(made: Manifest, output: Output) -> None:
    outcomes = [made.outcomes[part.key] for part in made.ranges if part.key in made.outcomes]
    found = {
        "complete": not made.open,
        "ranges": len(made.ranges),
        "copied": sum(outcome.copied for outcome in outcomes),
        "before": sum(outcome.before for outcome in outcomes),
        "queues": msgspec.to_builtins(outcomes),
    }
    rows = [[o.key, f"{o.start}-{o.end}", o.copied, o.before, o.seconds, _notes(o)] for o in outcomes]
    columns = ("queue", "offsets", "copied", "before", "seconds", "notes")
    state = "complete" if not made.open else f"{len(made.open)} of {len(made.ranges)} queues are open: run it again"
    show(found, output, Group(table(columns, rows, empty="nothing was copied"), Text(state)))


def _notes(outcome: Copied) -> str:
    """What else there is to say of a range."""
    counts = {
        "gaps": outcome.gaps,
        "resets": outcome.resets,
        **{f"left out ({reason})": count for reason, count in outcome.left_out.items()},
        "repeated": outcome.repeated,
        "foreign": outcome.foreign,
    }
    said = [f"{name} {count}" for name, count in counts.items() if count]
    return ", ".join([*said, outcome.error] if outcome.error else said)
