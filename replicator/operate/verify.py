"""`replicator verify`: source against target by provenance, with Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Group
from rich.text import Text

from replicator.errors import StartupError
from replicator.observe.logging import configure
from replicator.operate.options import SELECTION, ConfigFile, Master, MetricsPort, with_settings
from replicator.operate.progress import watched
from replicator.operate.show import Output, Shown, show, table
from replicator.operate.survey import surveying
from replicator.settings import Settings, load
from replicator.spark.access import Access
from replicator.spark.comparing import KINDS, Compared, CompareJob
from replicator.spark.session import session
from replicator.spark.verify import Lane, compare_all

__all__ = ["SETTINGS", "app"]

#: The route's settings that say what should be at the target.
SETTINGS: Final = (
    *SELECTION,
    "pulls_in_flight",
    "connector",
    "log_level",
)

_COLUMNS: Final = ("queue", "target", "start", "end", "behind", "selected", "copies", "digests", "found")

app = typer.Typer(help="Compare source and target, by Spark.")


@app.command()
@partial(with_settings, only=SETTINGS)
def verify(
    flags: Mapping[str, Any],
    config: ConfigFile = None,
    complete: Annotated[
        bool, typer.Option("--complete", help="What lies behind the last copy is missing too.")
    ] = False,
    ignore_extra: Annotated[
        bool, typer.Option("--ignore-extra", help="Others may write to the target's queues.")
    ] = False,
    first: Annotated[int, typer.Option("--first", min=1, help="Findings shown per queue and kind.")] = 20,
    report: Annotated[
        Path | None, typer.Option("--report", help="File for a report in Markdown.", show_default=False)
    ] = None,
    master: Master = None,
    metrics_port: MetricsPort = None,
    output: Shown = Output.TABLE,
) -> None:
    """Compares source and target: each message once, in order, unchanged. Exit code 1: something is not so.

    While a route runs, all before its last copy is compared.
    """
    settings = load(flags, file=config)
    configure(level=settings.log_level)
    job, lanes = asyncio.run(_plan(settings, complete=complete, extra=not ignore_extra, most=first))
    found: list[Compared] = []
    drawn = watched("verify", port=metrics_port, queues=len(lanes))
    with session(master=master) as spark, drawn as watching:

        def compared(outcome: Compared) -> None:
            found.append(outcome)
            watching.ended(messages=outcome.selected, failed=bool(outcome.error), findings=outcome.counts)

        compare_all(spark, job, lanes, on_compared=compared)
    found.sort(key=lambda each: each.key)
    clean = all(each.clean for each in found)
    if report is not None:
        _write(report, found)
    words = "source and target agree" if clean else "source and target differ"
    told = {"clean": clean, "counts": _counts(found), "queues": msgspec.to_builtins(found)}
    rows = [
        [each.key, f"{each.start}-{each.end}", each.behind, each.selected, each.copies, each.error or _said(each)]
        for each in found
    ]
    columns = ("queue", "offsets", "behind", "selected", "copies", "found")
    show(told, output, Group(table(columns, rows, empty="no queue"), *_findings(found), Text(words)))
    if not clean:
        raise typer.Exit(1)


async def _plan(settings: Settings, *, complete: bool, extra: bool, most: int) -> tuple[CompareJob, list[Lane]]:
    async with surveying(settings, writes=False) as survey:
        await survey.find_maps()
        lanes = [Lane(part, survey.has(part)) for part in await survey.ranges()]
        return CompareJob(
            source=Access.of(settings.source),
            target=Access.of(settings.target),
            options=survey.options,
            complete=complete,
            from_first_copy=settings.start_from == "latest",
            extra=extra,
            most=most,
        ), lanes


def _counts(found: Sequence[Compared]) -> dict[str, int]:
    counts = {kind: sum(each.counts.get(kind, 0) for each in found) for kind in KINDS}
    return {kind: count for kind, count in counts.items() if count}


def _rows(found: Sequence[Compared]) -> list[list[Any]]:
    return [
        [
            each.key,
            each.target,
            each.start,
            each.end,
            each.behind,
            each.selected,
            each.copies,
            "equal" if each.source_digest == each.target_digest else "differ",
            each.error or _said(each),
        ]
        for each in found
    ]


def _said(each: Compared) -> str:
    said = [f"{kind} {each.counts[kind]}" for kind in KINDS if kind in each.counts]
    if each.more_runs:
        said.append(f"and {each.more_runs} more runs of 4096 offsets differ")
    return ", ".join(said)


def _findings(found: Sequence[Compared]) -> Iterator[Text]:
    for each in found:
        for one in each.findings:
            source = "" if one.source is None else f" source {each.key}/{one.source}"
            target = "" if one.target is None else f" target {each.target}/{one.target}"
            detail = f" ({one.detail})" if one.detail else ""
            yield Text(f"{one.kind}:{source}{target}{detail}")


def _write(file: Path, found: Sequence[Compared]) -> None:
    """The report: a table of queues, and what was found first in each."""
    clean = all(each.clean for each in found)
    lines = ["# Source against target", "", "They agree." if clean else "They differ.", ""]
    lines += [_line(_COLUMNS), _line(["---"] * len(_COLUMNS)), *(_line(row) for row in _rows(found)), ""]
    if counts := _counts(found):
        lines += ["## Counts", "", *(f"- {kind}: {count}" for kind, count in counts.items()), ""]
        lines += ["## First findings", "", *(f"- {text.plain}" for text in _findings(found)), ""]
    try:
        file.write_text("\n".join(lines), encoding="utf-8")
    except OSError as error:
        raise StartupError(
            f"report = {str(file)!r} cannot be written ({error.strerror})", hint="name a file that can"
        ) from None


def _line(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
