"""The output of `backfill` and `import`: progress while they run, and the outcome of each range at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import typer
from rich.console import Group
from rich.text import Text

from replicator.command_output import Output, show
from replicator.exit_codes import ExitCode
from replicator.operate.jobs.progress import watched
from replicator.operate.reports import CopiedQueue, CopyReport
from replicator.operate.show import table
from replicator.ranges.copy_job import CopyOutcome, Range
from replicator.state.store import Store

__all__ = ["copying", "findings_of", "show_copied"]


@contextmanager
def copying(
    command: str, store_path: Path, parts: Sequence[Range], keep: Callable[[CopyOutcome], None], *, port: int | None
) -> Iterator[tuple[Callable[[CopyOutcome], None], Callable[[int], None]]]:
    """Two callbacks for a copy: one takes each outcome, the other the number of messages that have arrived.

    Args:
        store_path: locked meanwhile, so that no worker can use it.
        keep: called with each outcome.
        port: of /metrics.

    Raises:
        StartupError: a worker uses `store_path`, or the port cannot be used.
    """
    left = sum(part.end - part.start for part in parts)
    with closing(Store(store_path)), watched(command, port=port, queues=len(parts), messages=left) as job:

        def copied(outcome: CopyOutcome) -> None:
            keep(outcome)
            job.ended(messages=outcome.copied, failed=bool(outcome.error), findings=findings_of(outcome))

        yield copied, job.moved


def findings_of(outcome: CopyOutcome) -> dict[str, int]:
    """The counts of an outcome that are problems."""
    counts = {name: getattr(outcome, name) for name in ("gaps", "resets", "duplicates", "foreign")}
    return {kind: count for kind, count in counts.items() if count}


def show_copied(ranges: Sequence[Range], known: Mapping[str, CopyOutcome], output: Output) -> None:
    """Shows the outcomes of `ranges`; `known` has them by key.

    Raises:
        typer.Exit: with NOT_AS_EXPECTED if a range is open, or messages were copied twice.
    """
    outcomes = [known[part.key] for part in ranges if part.key in known]
    still = len(ranges) - sum(not outcome.error for outcome in outcomes)
    found = CopyReport(
        complete=not still,
        ranges=len(ranges),
        copied=sum(outcome.copied for outcome in outcomes),
        before=sum(outcome.before for outcome in outcomes),
        queues=[_queue(outcome) for outcome in outcomes],
    )
    rows = [[o.key, f"{o.start}-{o.end}", o.copied, o.before, o.seconds, _notes(o)] for o in outcomes]
    columns = ("queue", "offsets", "copied", "before", "seconds", "notes")
    state = f"{still} of {len(ranges)} queues are open: run it again" if still else "complete"
    show(found, output, Group(table(columns, rows, empty="nothing was copied"), Text(state)))
    if still or any(outcome.duplicates for outcome in outcomes):
        raise typer.Exit(ExitCode.NOT_AS_EXPECTED)


def _queue(outcome: CopyOutcome) -> CopiedQueue:
    tail = None if outcome.tail is None else outcome.tail._asdict()
    return CopiedQueue.model_validate(msgspec.to_builtins(outcome) | {"tail": tail})


def _notes(outcome: CopyOutcome) -> str:
    """The remarks on a range."""
    counts = {
        "gaps": outcome.gaps,
        "resets": outcome.resets,
        **{f"left out ({reason})": count for reason, count in outcome.left_out.items()},
        "duplicates": outcome.duplicates,
        "foreign": outcome.foreign,
    }
    said = [f"{name} {count}" for name, count in counts.items() if count]
    return ", ".join([*said, outcome.error] if outcome.error else said)
