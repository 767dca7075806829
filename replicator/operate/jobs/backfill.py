"""`replicator backfill`: Spark copies what the source has now; a live route continues after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from replicator.command_app import CommandApp
from replicator.command_output import Output, Shown
from replicator.group.job_claim import JobClaim
from replicator.observe.logging import configure, get_logger
from replicator.operate.jobs.job_preflight import surveying
from replicator.operate.jobs.manifest import Manifest
from replicator.operate.jobs.outcomes import copying, show_copied
from replicator.operate.options import SELECTION, ConfigFile, MetricsPort, with_settings
from replicator.ranges.copy_job import CopyJob
from replicator.settings import Settings, load
from replicator.spark.engine.session import session
from replicator.spark.jobs.backfill import copy_all

__all__ = ["SETTINGS", "app"]

_FILE: Final = "backfill.json"

#: The route's settings that apply without a route.
SETTINGS: Final = (
    *SELECTION,
    "born_timestamp",
    "on_error",
    "on_gap",
    "on_target_loss",
    "dead_letter_topic",
    "rate_messages",
    "rate_bytes",
    "compression_type",
    "compress_over",
    "batch_messages",
    "batch_bytes",
    "pulls_in_flight",
    "memory_bytes",
    "connector",
    "standalone",
    "coordination",
    "worker_group",
    "worker_group_secret_file",
    "worker_group_accept_unsigned",
    "source_online_topic",
    "session_timeout",
    "settle_timeout",
    "stall_timeout",
    "store_path",
    "spark_master",
    "log_level",
)

app = CommandApp()

log = get_logger(__name__)

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
    metrics_port: MetricsPort = None,
    output: Shown = Output.TABLE,
) -> None:
    """Copy what the source has now, by Spark; a running route continues after it.

    Run again, it continues where it stopped. Exit code 5: some queue is not copied to its end.
    """
    settings = load(flags, file=config)
    configure(level=settings.log_level)
    with ExitStack() as stack:
        begin = partial(stack.enter_context, session(master=settings.spark_master))
        made, job, spark, claim = asyncio.run(
            _prepare(settings, manifest or settings.store_path / _FILE, begin, stack)
        )
        if made.open:
            drawn = copying("backfill", settings.store_path, made.open, made.add, port=metrics_port)
            on_copied, on_progress = stack.enter_context(drawn)

            def progress(moved: int) -> None:
                if claim is not None:
                    claim.check()
                on_progress(moved)

            with closing(made):
                copy_all(spark, job, made.open, on_copied=on_copied, on_progress=progress)
    show_copied(made.ranges, made.outcomes, output)


async def _prepare(
    settings: Settings, file: Path, begin: Callable[[], Any], stack: ExitStack
) -> tuple[Manifest, CopyJob, Any, JobClaim | None]:
    """The manifest, the job, and, unless all is done, the session that `begin` starts, and what announces the job.

    The job stays announced until `stack` ends.
    """
    async with surveying(settings, writes=True) as survey:
        identity = survey.context.identity
        made, spark, claim = Manifest.read(file, settings, identity), None, None
        if made is None:
            await survey.check()
        if made is None or made.open:
            claim = stack.enter_context(survey.claimed("backfill"))
            # Spark starts while we listen. It ends with the command, also if the command is refused.
            spark, _ = await asyncio.gather(
                asyncio.to_thread(begin), survey.refuse_others("" if claim is None else claim.incarnation)
            )
        if made is None:
            await survey.make_ready()
            made = Manifest.begin(file, settings, identity, await survey.ranges())
            # One that is not registered now is not among them, and nothing else says so.
            log.info("queues are copied", source_brokers=sorted({part.source.broker for part in made.ranges}))
        return made, replace(survey.job, lease=None if claim is None else claim.lease), spark, claim
