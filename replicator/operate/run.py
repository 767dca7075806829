"""`replicator run`: a worker, as without a command, or the route as a Structured Streaming job."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Final

import typer

from replicator import service
from replicator.aio.backoff import Backoff
from replicator.command_app import CommandApp
from replicator.errors import ConfigError, ReplicatorError, StartupError
from replicator.exit_codes import ExitCode
from replicator.observe.logging import configure, get_logger
from replicator.operate import backfill
from replicator.operate.job_preflight import JobPreflight, surveying
from replicator.operate.options import ConfigFile, MetricsPort, flag_of, is_of, with_settings
from replicator.operate.outcomes import findings_of
from replicator.operate.progress import JobProgress, watched
from replicator.ranges.access import run as run_async
from replicator.ranges.copier import CopyOutcome, Range
from replicator.routing.message_queue import MessageQueue
from replicator.settings import Settings, leaves, load
from replicator.spark.engine.session import session
from replicator.spark.source.offsets import Part

__all__ = ["SETTINGS", "app"]

#: The settings that apply to the job.
SETTINGS: Final = (*backfill.SETTINGS, "drain_timeout")

#: Seconds until a job that ended is restarted: the first time, and at most.
_AGAIN_FIRST: Final = 10.0
_AGAIN_MOST: Final = 300.0

log = get_logger(__name__)
app = CommandApp()


class Engine(StrEnum):
    """What copies the messages."""

    LIVE = "live"
    SPARK = "spark"


Checkpoint = Annotated[
    str | None,
    typer.Option(help="Directory of the job's checkpoint, seen by all of Spark.", show_default=False),
]


@app.command()
@with_settings
def run(
    flags: Mapping[str, Any],
    config: ConfigFile = None,
    engine: Annotated[
        Engine, typer.Option(help="Copy in this process, or by a Structured Streaming job.")
    ] = Engine.LIVE,
    checkpoint: Checkpoint = None,
    metrics_port: MetricsPort = None,
) -> None:
    """Copy topics from one RocketMQ cluster to another, until stopped."""
    settings = load(flags, file=config)
    if engine is Engine.LIVE:
        given = (("--checkpoint", checkpoint), ("--metrics-port", metrics_port))
        for flag, value in given:
            if value is not None:
                raise ConfigError(
                    f"{flag} = {value!r} would do nothing", hint="give --engine spark, or leave it out"
                )
        configure(level=settings.log_level)
        raise typer.Exit(service.run(settings))
    for name in leaves(flags):
        if not is_of(name, SETTINGS):
            raise ConfigError(f"{flag_of(name)} with --engine spark would do nothing", hint="leave it out")
    if checkpoint is None:
        raise ConfigError("checkpoint is missing", hint="give --checkpoint, a directory that is kept")
    configure(level=settings.log_level)
    with ExitStack() as stack:
        code = run_async(_serve(settings, checkpoint, metrics_port, stack))
    raise typer.Exit(code)


async def _serve(settings: Settings, checkpoint: str, metrics_port: int | None, stack: ExitStack) -> int:
    """Runs the job until it is stopped, and returns the exit code; it stays announced until `stack` ends."""
    from replicator.spark.jobs.route_stream import RouteStream  # noqa: PLC0415 - PySpark may be missing

    loop = asyncio.get_running_loop()
    async with surveying(settings, writes=True) as survey:
        await survey.check()
        ours = stack.enter_context(survey.claimed("run --engine spark"))
        await survey.refuse_others(ours)
        await survey.make_ready()
        first = {MessageQueue(part.topic, *part.source): part.start for part in await survey.ranges()}

        def ranges_of(parts: Sequence[Part]) -> Sequence[Range]:
            return asyncio.run_coroutine_threadsafe(_ranges_of(survey, parts), loop).result()

        with session(master=settings.spark_master) as spark, watched("run", port=metrics_port) as job:
            told = _Told(job)
            stream = RouteStream(
                spark,
                survey.job,
                survey.topics.selector,
                first,
                checkpoint=checkpoint,
                ranges_of=ranges_of,
                on_batch=told.add,
            )
            stop = _signals()
            identity = survey.context.identity
            log.info(
                "replicating", source=identity.source, target=identity.target, engine="spark", checkpoint=checkpoint
            )
            await _keep_on(stream, stop, told, drain_timeout=settings.drain_timeout)
            log.info("drained", copied=told.copied)
    return ExitCode.OK


async def _ranges_of(survey: JobPreflight, parts: Sequence[Part]) -> list[Range]:
    if any(part.message_queue not in survey.queue_map for part in parts):
        await survey.look_again()
    targets = survey.queue_map
    found = []
    for part in parts:
        target = targets.get(part.message_queue)
        if target is None:
            raise ReplicatorError(f"{part.message_queue} has no queue at the target yet")
        found.append(Range(part.topic, part.queue, target.topic, target.queue, part.start, part.end))
    return found


async def _keep_on(stream: Any, stop: asyncio.Event, told: _Told, *, drain_timeout: float) -> None:
    """Runs the job, and restarts it when it ends, until `stop`."""
    stopping = asyncio.create_task(stop.wait())
    backoff = Backoff(_AGAIN_FIRST, _AGAIN_MOST, jitter=0.0)
    while not stopping.done():
        copied = told.copied
        running = asyncio.create_task(asyncio.to_thread(stream.run))
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if stopping.done():
            await asyncio.to_thread(stream.drain, drain_timeout)
            await asyncio.wait({running})
            running.exception()  # ignored: the job is over
            return
        if stream.session_ended:
            raise StartupError(f"Spark's session has ended: {running.exception()}", hint="run it again")
        if told.copied > copied:
            backoff.reset()
        pause = backoff.next()
        log.error("the job ended, and is started again", reason=str(running.exception()), seconds=pause)
        await asyncio.wait({stopping}, timeout=pause)


def _signals() -> asyncio.Event:
    """Set by SIGTERM or SIGINT; a second one ends the process at once."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        if stop.is_set():
            log.warning("stopped before everything was drained; the rest is copied at the next start")
            os._exit(128 + number)
        log.info("draining", signal=number.name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, partial(on_signal, number))
    return stop


class _Told:
    """Reports the outcomes of micro-batches to the log and the metrics."""

    def __init__(self, job: JobProgress) -> None:
        self.copied = 0
        self._job = job

    def add(self, outcomes: Sequence[CopyOutcome]) -> None:
        self.copied += sum(outcome.copied for outcome in outcomes)
        log.debug("micro-batch", queues=len(outcomes), copied=sum(outcome.copied for outcome in outcomes))
        for outcome in outcomes:
            self._job.ended(messages=outcome.copied, failed=bool(outcome.error), findings=findings_of(outcome))
            if outcome.gaps or outcome.resets:
                log.error("source gap", queue=outcome.key, messages=outcome.gaps, resets=outcome.resets)
            if outcome.duplicates:
                log.error("duplicates at the target", queue=outcome.key, count=outcome.duplicates)
