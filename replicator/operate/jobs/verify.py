"""`replicator verify`: compares source and target by provenance, with Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Group
from rich.text import Text

from replicator.command_app import CommandApp
from replicator.command_output import Output, Shown, show
from replicator.exit_codes import ExitCode
from replicator.observe.logging import configure
from replicator.operate.jobs.job_preflight import surveying
from replicator.operate.jobs.offset_bounds import OffsetBound, narrowed, offset_bound
from replicator.operate.jobs.progress import watched
from replicator.operate.jobs.verify_report import (
    ReportFile,
    Verdict,
    counts_of,
    noted,
    render,
    told,
)
from replicator.operate.options import SELECTION, ConfigFile, MetricsPort, with_settings
from replicator.operate.reports import VerifyReport
from replicator.operate.show import table
from replicator.ranges.access import Access
from replicator.ranges.comparer import Compared, CompareJob
from replicator.settings import Settings, load
from replicator.spark.engine.session import session
from replicator.spark.jobs.verify import RangeToCompare, compare_all

__all__ = ["SETTINGS", "app"]

#: The route's settings that say what should be at the target.
SETTINGS: Final = (
    *SELECTION,
    "rate_messages",
    "rate_bytes",
    "pulls_in_flight",
    "connector",
    "spark_master",
    "log_level",
)

app = CommandApp()


@app.command()
@partial(with_settings, only=SETTINGS)
def verify(
    flags: Mapping[str, Any],
    config: ConfigFile = None,
    complete: Annotated[
        bool,
        typer.Option(
            "--complete", help="Report messages after the last copy as missing too, instead of as not yet copied."
        ),
    ] = False,
    ignore_extra: Annotated[
        bool, typer.Option("--ignore-extra", help="Do not report messages at the target that are not copies.")
    ] = False,
    begin: Annotated[
        str | None,
        typer.Option("--from", help="First source offset, or ISO 8601 time, to compare.", show_default=False),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="Source offset, or ISO 8601 time, to compare up to (exclusive); all before it must be copied.",
            show_default=False,
        ),
    ] = None,
    first: Annotated[
        int, typer.Option("--first", min=1, help="Findings per kind; with -o json per queue, too.")
    ] = 20,
    report: Annotated[
        Path | None, typer.Option("--report", help="File for a report in Markdown.", show_default=False)
    ] = None,
    metrics_port: MetricsPort = None,
    output: Shown = Output.TABLE,
) -> None:
    """Check that the target has each message of the source once, in order and unchanged.

    Exit code 5: it has not, or not all could be compared.

    While a route runs, all before its last copy is compared; with --to, all before that.
    """
    settings = load(flags, file=config)
    configure(level=settings.log_level)
    window = offset_bound("--from", begin), offset_bound("--to", end)
    written = None if report is None else ReportFile(report)
    whole = complete or end is not None
    job, ranges = asyncio.run(_plan(settings, window, complete=whole, extra=not ignore_extra, most=first))
    found: list[Compared] = []
    drawn = watched("verify", port=metrics_port, queues=len(ranges))
    with session(master=settings.spark_master) as spark, drawn as watching:

        def compared(outcome: Compared) -> None:
            found.append(outcome)
            watching.ended(messages=outcome.selected, failed=bool(outcome.error), findings=outcome.counts)

        compare_all(spark, job, ranges, on_compared=compared)
    found.sort(key=lambda each: each.key)
    verdict = Verdict.of(found, window=window != (None, None))
    result = VerifyReport.model_validate(
        {"clean": verdict.clean, "counts": counts_of(found), "queues": msgspec.to_builtins(found)}
    )
    rows = [
        [each.key, f"{each.start}-{each.end}", each.behind, each.selected, each.copies, noted(each)]
        for each in found
    ]
    columns = ("queue", "offsets", "behind", "selected", "copies", "found")
    lines = [Text(line) for line in told(found, verdict, most=first)]
    show(result, output, Group(table(columns, rows, empty="no queue"), *lines))
    if written is not None:  # after hours of reading the outcome is on the screen, whatever becomes of the file
        written.write(render(found, verdict))
    if not verdict.clean:
        raise typer.Exit(ExitCode.NOT_AS_EXPECTED)


async def _plan(
    settings: Settings,
    window: tuple[OffsetBound | None, OffsetBound | None],
    *,
    complete: bool,
    extra: bool,
    most: int,
) -> tuple[CompareJob, list[RangeToCompare]]:
    async with surveying(settings, writes=False) as survey:
        await survey.find_maps()
        parts = await narrowed(survey.context.source.cluster, await survey.ranges(), *window)
        ranges = [RangeToCompare(part, survey.has(part)) for part in parts]
        return CompareJob(
            source=Access.of(settings.source),
            target=Access.of(settings.target),
            options=survey.options,
            complete=complete,
            from_first_copy=settings.start_from == "latest",
            extra=extra,
            window=window != (None, None),
            most=most,
            rate_messages=settings.rate_messages,
            rate_bytes=settings.rate_bytes,
        ), ranges
