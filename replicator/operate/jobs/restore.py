"""`replicator import`: Spark sends an archive's topics to a cluster as a route would have copied them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from replicator.client.cluster import Topology
from replicator.client.discovery import Discovery
from replicator.client.topics import TopicConfig
from replicator.command_app import CommandApp
from replicator.command_output import Output, Shown
from replicator.connector.context import first_refresh
from replicator.connector.identity import identify
from replicator.connector.topics import RouteTopics
from replicator.errors import ClientError, ConfigError, StartupError
from replicator.observe.logging import configure, get_logger
from replicator.operate.jobs.archive import MANIFEST, Archive
from replicator.operate.jobs.export import Directory
from replicator.operate.jobs.job_preflight import JobPreflight, world_of
from replicator.operate.jobs.outcomes import copying, show_copied
from replicator.operate.options import ConfigFile, MetricsPort, with_settings
from replicator.ranges.access import Access
from replicator.ranges.copy_job import CopyOutcome, Range
from replicator.service import cluster_of
from replicator.settings import Settings, load
from replicator.spark.engine.session import session
from replicator.spark.jobs.import_ import Archived, ImportJob, import_all
from replicator.spark.jobs.location import Location
from replicator.state.store import Store

__all__ = ["SETTINGS", "app"]

#: The route's settings that apply without a source.
SETTINGS: Final = (
    "source.id",
    "topics",
    "exclude_topics",
    "rename",
    "forward",
    "born_timestamp",
    "on_error",
    "dead_letter_topic",
    "rate_messages",
    "rate_bytes",
    "compression_type",
    "compress_over",
    "batch_messages",
    "batch_bytes",
    "memory_bytes",
    "connector",
    "worker_group_secret_file",
    "settle_timeout",
    "stall_timeout",
    "store_path",
    "spark_master",
    "log_level",
)

app = CommandApp()

log = get_logger(__name__)


@app.command("import")
@partial(with_settings, only=SETTINGS, clusters=("target",))
def restore(
    flags: Mapping[str, Any],
    directory: Directory,
    config: ConfigFile = None,
    metrics_port: MetricsPort = None,
    output: Shown = Output.TABLE,
) -> None:
    """Send an archive's messages to a cluster as a route would have; what the target has already is not sent again.

    Exit code 5: some queue is not imported to its end.
    """
    location = Location.of(directory)
    archive = Archive.read(location)
    if archive is None:
        raise ConfigError(f"directory = {str(location)!r} has no {MANIFEST}", hint="name one that `export` wrote")
    if archive.open:
        raise StartupError(
            f"the archive in {location} is not complete: {len(archive.open)} queues are open",
            hint="run `replicator export` again",
        )
    settings = _settings(flags, archive, config)
    configure(level=settings.log_level)
    _say_whose(settings, archive)
    parts, job = asyncio.run(_plan(settings, archive))
    done: dict[str, CopyOutcome] = {}
    ranges = [each.part for each in parts]

    def keep(outcome: CopyOutcome) -> None:
        done[outcome.key] = outcome

    drawn = copying("import", settings.store_path, ranges, keep, port=metrics_port)
    with session(master=settings.spark_master) as spark, drawn as (on_copied, on_progress):
        import_all(spark, job, parts, on_copied=on_copied, on_progress=on_progress)
    show_copied(ranges, done, output)


def _settings(flags: Mapping[str, Any], archive: Archive, config: Path | None) -> Settings:
    """The settings of a route from the archive's cluster, which is the source where nobody says otherwise."""
    found = archive.contents
    own = {"namesrv": found.namesrv} | ({} if found.id is None else {"id": found.id})
    return load(flags, file=config, defaults={"source": own})


def _say_whose(settings: Settings, archive: Archive) -> None:
    """Where somebody has given another id than the archive has, which may also be a mistake."""
    if archive.contents.id not in (None, settings.source.id):
        log.warning(
            "source.id is not the id that the archive has; copies get the one that is set",
            source_id=settings.source.id,
            archive_id=archive.contents.id,
        )


async def _plan(settings: Settings, archive: Archive) -> tuple[list[Archived], ImportJob]:
    contents = archive.contents
    archive.refuse_missing(contents.outcomes.values())
    store = Store(settings.store_path)
    source = _Archived(settings, archive)
    target = Discovery(cluster_of(settings.target), masters_only=True)
    try:
        seen = await first_refresh(target, "target", settings.target)
        if not target.topics:
            raise StartupError("the target has no broker with a master", hint="start one")
        identity = identify(settings, Topology(contents.cluster, {}), seen, store.identity())
        context = world_of(settings, source, target, identity, store)
        topics = RouteTopics(settings.connector, settings.route, context)
        topics.plan()
        survey = JobPreflight(settings, context, topics, holder="archive")
        await survey.make_ready()
        copied_to = survey.queue_map
        parts = [
            Archived(
                Range(part.topic, part.queue, queue.topic, queue.queue, part.start, part.end),
                tuple(contents.outcomes[part.key].files),
            )
            for part in contents.slices
            if (queue := copied_to.get(part.message_queue)) is not None
        ]
    except ClientError as error:
        raise StartupError(error.message, hint=error.hint or "check the address, credentials and TLS") from None
    finally:
        await target.cluster.close()
        store.close()
    return parts, ImportJob(
        target=Access.of(settings.target),
        options=survey.options,
        location=archive.location,
        memory_bytes=settings.memory_bytes,
        rate_messages=settings.rate_messages,
        rate_bytes=settings.rate_bytes,
        stall_timeout=settings.stall_timeout,
    )


class _Archived(Discovery):
    """A cluster as recorded in an archive; it is never contacted."""

    def __init__(self, settings: Settings, archive: Archive) -> None:
        super().__init__(cluster_of(settings.source), masters_only=False)
        self.cluster_name = archive.contents.cluster
        self._archive = archive

    @property
    def topics(self) -> Mapping[str, Mapping[str, TopicConfig]]:
        return self._archive.contents.topics
