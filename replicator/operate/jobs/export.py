"""`replicator export`: topics as Parquet, by Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Group
from rich.text import Text

from replicator.aio.bounded import bounded
from replicator.client.brokers import max_offset, min_offset, offset_at
from replicator.client.cluster import Topology
from replicator.client.discovery import Discovery
from replicator.client.endpoint import Endpoint
from replicator.client.pull import message_at
from replicator.command_app import CommandApp
from replicator.command_output import Output, Shown, show
from replicator.connector.context import first_refresh
from replicator.errors import ConfigError, StartupError
from replicator.exit_codes import ExitCode
from replicator.observe.logging import configure, get_logger
from replicator.operate.jobs.archive import Archive, Contents
from replicator.operate.jobs.progress import watched
from replicator.operate.options import ConfigFile, MetricsPort, with_settings
from replicator.operate.reports import ExportReport
from replicator.operate.show import table
from replicator.ranges.access import Access
from replicator.routing.message_queue import MessageQueue
from replicator.routing.plan import unsupported
from replicator.routing.selector import TopicSelector
from replicator.service import cluster_of
from replicator.settings import Settings, load
from replicator.spark.engine.session import session
from replicator.spark.jobs.archive import Slice
from replicator.spark.jobs.export import Exported, ExportJob, export_all
from replicator.spark.jobs.location import Location

__all__ = ["SETTINGS", "Directory", "app"]

#: Settings that define what is exported; if they changed, the slices would change.
_SELECTION: Final = ("topics", "exclude_topics", "start_from")
SETTINGS: Final = (*_SELECTION, "on_gap", "rate_messages", "rate_bytes", "spark_master", "log_level")

#: Settings have two clusters, this command uses one.
_NO_TARGET: Final = {"target": {"namesrv": "none:1"}}
#: Concurrent requests.
_AT_ONCE: Final = 32

app = CommandApp()

log = get_logger(__name__)

Directory = Annotated[
    str,
    typer.Argument(
        help="s3://bucket/prefix, hdfs://host/path, or a directory that all Spark executors share.",
        show_default=False,
    ),
]


@app.command()
@partial(with_settings, only=SETTINGS, clusters=("source",))
def export(
    flags: Mapping[str, Any],
    directory: Directory,
    config: ConfigFile = None,
    metrics_port: MetricsPort = None,
    output: Shown = Output.TABLE,
) -> None:
    """Write what the source has now as Parquet files, by topic and day.

    Run again, it continues where it stopped. Exit code 5: some queue is not written to its end.
    """
    settings = load({**flags, **_NO_TARGET}, file=config)
    configure(level=settings.log_level)
    archive = asyncio.run(_plan(settings, Location.of(directory)))
    archive.reopen_missing()
    if archive.open:
        archive.claim()
        archive.sweep()
        job = ExportJob(
            source=Access.of(settings.source),
            location=archive.location,
            on_gap=settings.on_gap,
            rate_messages=settings.rate_messages,
            rate_bytes=settings.rate_bytes,
        )
        drawn = watched("export", port=metrics_port, queues=len(archive.open))
        with closing(archive), session(master=settings.spark_master) as spark, drawn as watching:

            def exported(outcome: Exported) -> None:
                archive.add(outcome)
                gaps = {"gaps": outcome.gaps} if outcome.gaps else {}
                watching.ended(messages=outcome.messages, failed=bool(outcome.error), findings=gaps)

            export_all(spark, job, archive.open, on_exported=exported)
        archive.sweep()
        archive.reopen_missing()
    _show(archive, output)
    if archive.open:
        raise typer.Exit(ExitCode.NOT_AS_EXPECTED)


async def _plan(settings: Settings, location: Location) -> Archive:
    if settings.start_from == "latest":
        raise ConfigError("start_from = 'latest': nothing would be exported", hint="give earliest or a time")
    source = Discovery(cluster_of(settings.source), masters_only=False)
    try:
        topology = await first_refresh(source, "source", settings.source)
        selection = {name: getattr(settings, name) for name in _SELECTION}
        archive = Archive.read(location)
        if archive is not None:
            archive.refuse_other(topology.cluster, selection)
            return archive
        return Archive.begin(location, await _contents(settings, source, topology, selection))
    finally:
        await source.cluster.close()


async def _contents(
    settings: Settings, source: Discovery, topology: Topology, selection: dict[str, Any]
) -> Contents:
    """The current contents of the selected topics: [oldest, next) of each queue."""
    selector = TopicSelector.of(settings.topics, settings.exclude_topics)
    system = [*source.topics, topology.cluster]
    topics = {
        broker: {name: config for name, config in there.items() if selector.selects(name, system=system)}
        for broker, there in source.topics.items()
    }
    if not any(topics.values()):
        raise StartupError(
            f"topics = {', '.join(settings.topics)}: the source has no such topic", hint="check --topics"
        )
    for config in (config for there in topics.values() for config in there.values()):
        if problem := unsupported(config):
            raise StartupError(
                f"topic {config.name} cannot be exported: {problem}", hint="leave it out with --exclude-topics"
            )
    moment = settings.start_timestamp()

    async def one(queue: MessageQueue) -> Slice:
        place = (source.cluster.reader(queue.broker), queue.topic, queue.queue_id)
        start, end = await min_offset(*place), await max_offset(*place)
        if isinstance(moment, int):
            start = max(start, await offset_at(*place, moment))
        start = min(start, end)
        stored = (await _stored(place, start), await _stored(place, end - 1)) if start < end else (0, 0)
        return Slice(queue.topic, queue.queue, start, end, stored)

    queues = [
        MessageQueue(name, broker, i)
        for broker, there in topics.items()
        for name, config in there.items()
        for i in range(config.queues)
    ]
    # One that is not registered now is not among them, and nothing else says so.
    log.info("queues are exported", source_brokers=sorted({queue.broker for queue in queues}))
    return Contents(
        id=settings.source.id,
        cluster=topology.cluster,
        namesrv=settings.source.namesrv[0],
        selection=selection,
        topics=topics,
        slices=await bounded(one, sorted(queues), at_once=_AT_ONCE),
    )


async def _stored(place: tuple[Endpoint, str, int], offset: int) -> int:
    """When the message at `offset` was stored (ms); 0 where there is none any more."""
    found = await message_at(*place, offset)
    return 0 if found is None else found.store_timestamp


def _show(archive: Archive, output: Output) -> None:
    slices, known = archive.contents.slices, archive.contents.outcomes
    outcomes = [known[part.key] for part in slices if part.key in known]
    files = [file for outcome in outcomes for file in outcome.files]
    found = ExportReport(
        complete=not archive.open,
        messages=sum(outcome.messages for outcome in outcomes),
        bytes=sum(file.size for file in files),
        queues=msgspec.to_builtins(outcomes),
    )
    rows = [[o.key, f"{o.start}-{o.end}", o.messages, o.gaps, len(o.files), o.seconds, o.error] for o in outcomes]
    columns = ("queue", "offsets", "messages", "gaps", "files", "seconds", "notes")
    state = (
        "complete" if not archive.open else f"{len(archive.open)} of {len(slices)} queues are open: run it again"
    )
    show(found, output, Group(table(columns, rows, empty="nothing was exported"), Text(state)))
