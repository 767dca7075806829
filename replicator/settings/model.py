"""The settings themselves: names, types, defaults, and what goes together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from replicator.observe.logging import Level
from replicator.settings.acl import AclSettings
from replicator.settings.clusters import (
    Cluster,
    comma_list,
    some_path,
    valid_id,
)
from replicator.settings.names import Names, Patterns
from replicator.settings.rest import RestSettings
from replicator.settings.sizes import Size

__all__ = [
    "ENV_PREFIX",
    "RouteSettings",
    "Settings",
    "setting_fields",
    "topic_name",
]

ENV_PREFIX: Final = "REPLICATOR_"
#: At most a year: greater ones are mistakes, and no timer takes all of them.
Seconds = Annotated[float, Field(le=365 * 86400, allow_inf_nan=False)]
#: Messages; greater ones fit into no counter of a broker.
_MOST: Final = 2**53
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TOPIC = re.compile(r"[%|a-zA-Z0-9_-]+")
_NAME = re.compile(r"[%a-zA-Z0-9_-]+")


def _kinds(value: object) -> object:
    given = comma_list(value)
    return [] if given == ["none"] else given


SyncKinds = Annotated[list[Literal["topics", "groups", "offsets", "acl"]], BeforeValidator(_kinds)]


def topic_name(value: str) -> str:
    """`value`, if brokers take it as a topic's name.

    Raises:
        ValueError: they do not.
    """
    if not _TOPIC.fullmatch(value) or len(value) > 127:
        raise ValueError("a topic's name has up to 127 letters, digits, %, |, _ and -")
    return value


def milliseconds(moment: str | datetime) -> int:
    """An ISO 8601 time as milliseconds since the epoch, rounded down; UTC where it names no zone.

    Raises:
        ValueError: it is none.
    """
    found = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    # Exactly: a float of so many milliseconds may be one too few.
    return ((found if found.tzinfo else found.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)


class RouteSettings(BaseModel):
    """What a route copies and how; REST calls it a connector's configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topics: Patterns = Field([".*"], description="topics to copy: names or regular expressions")
    exclude_topics: Patterns = Field([], description="topics not to copy; wins over `topics`")
    rename: str = Field("{topic}", description="name at the target; {topic}, {source}, {target} stand for names")
    start_from: str = Field("earliest", description="where new queues begin: earliest, latest, or an ISO 8601 time")
    tags: Names = Field([], description="copy only messages with one of these tags")
    sql: str | None = Field(None, description="copy only messages that this SQL92 expression selects")
    transforms: Names = Field(
        [], description="installed transforms that each message goes through, in order: NAME or NAME?KEY=VALUE"
    )
    forward: Literal["local", "all"] = Field(
        "all", description="`local` leaves out messages that were themselves copied to the source"
    )
    born_timestamp: Literal["batch", "exact"] = Field(
        "batch", description="`exact` keeps each born timestamp; `batch` gives a batch that of its first message"
    )
    on_error: Literal["fail", "skip", "wait", "dead-letter"] = Field(
        "fail", description="what to do with a message that the target or a transform refuses"
    )
    on_gap: Literal["fail", "skip"] = Field(
        "skip", description="what to do when the source lost messages before they were read"
    )
    on_target_loss: Literal["resend", "fail", "wait"] = Field(
        "resend",
        description="what to do when the target has lost messages that it had acknowledged: copy them again before"
        " anything new, stop the queue, or wait until the target has them again",
    )
    dead_letter_topic: str = Field(
        "replicator_sys_dead_letter",
        description="topic of `on_error=dead-letter`, on each target broker that refuses a message",
    )
    rate_messages: int = Field(
        0, ge=0, le=_MOST, description="messages per second, all queues together; 0: no limit"
    )
    rate_bytes: Size = Field(0, description="bytes per second, all queues together; 0: no limit")
    batch_messages: int = Field(2048, ge=1, le=10_000, description="messages in one send, at most")
    batch_bytes: Size = Field(
        2 * 1024**2, ge=1, description="bytes in one send, at most; the target's limit holds too"
    )
    pulls_in_flight: int = Field(64, ge=1, le=512, description="concurrent pulls per queue, at most")
    task_granularity: Literal["topic", "queue"] = Field(
        "topic", description="what is assigned to workers: whole topics, or single queues"
    )

    backfill: bool | None = Field(
        None,
        description="have Spark copy what queues hold when they begin; by default where `spark_master` is set and"
        " they lag `backfill_min_lag` behind",
    )
    backfill_min_lag: int = Field(
        10_000_000,
        ge=1,
        le=_MOST,
        description="messages that a worker's queues lag behind for Spark to copy them by default",
    )

    sync: SyncKinds = Field(
        ["topics", "groups", "offsets"],
        description="metadata to sync besides messages: topics, groups, offsets, acl; `none` for nothing",
    )
    sync_groups: Patterns = Field([".*"], description="consumer groups to sync: names or regular expressions")
    exclude_groups: Patterns = Field([], description="consumer groups not to sync; wins over `sync_groups`")
    retry_topics: bool = Field(
        False, description="also copy the retry topics (%RETRY%GROUP) of the groups that `sync_groups` selects"
    )
    sync_topics_interval: Seconds = Field(10.0, ge=0.5, description="seconds between syncs of topic settings")
    sync_groups_interval: Seconds = Field(10.0, ge=0.5, description="seconds between syncs of consumer groups")
    sync_offsets_interval: Seconds = Field(3.0, ge=0.5, description="seconds between syncs of consumer offsets")
    sync_acl_interval: Seconds = Field(3.0, ge=0.5, description="seconds between syncs of accounts and permissions")
    sync_deletes: bool = Field(
        False, description="delete what was synced at the target when the source has deleted it"
    )
    on_drift: Literal["report", "repair"] = Field(
        "report",
        description="what to do with settings that were changed manually at the target, or differed there before",
    )
    protect_target: bool = Field(
        False, description="keep the target's topics read-only for applications until a failover"
    )

    @field_validator("dead_letter_topic")
    @classmethod
    def _topic_name(cls, value: str) -> str:
        return topic_name(value)

    @field_validator("rename")
    @classmethod
    def _template(cls, value: str) -> str:
        try:
            parts = list(Formatter().parse(value))
        except ValueError:
            parts = [("", "", "", None)]
        names = {(name, form, conversion) for _, name, form, conversion in parts if name is not None}
        if not names <= {(name, "", None) for name in ("topic", "source", "target")}:
            raise ValueError("only {topic}, {source} and {target} can stand in braces")
        if ("topic", "", None) not in names:
            raise ValueError("without {topic} all topics would get the same name")
        if not _TOPIC.fullmatch(value.format(topic="T", source="S", target="D")):
            raise ValueError("topic names have only letters, digits, %, |, _ and -")
        return value

    @field_validator("start_from")
    @classmethod
    def _start(cls, value: str) -> str:
        if value not in ("earliest", "latest"):
            try:
                milliseconds(value)
            except ValueError:
                raise ValueError("give earliest, latest or an ISO 8601 time like 2026-01-31T06:00:00Z") from None
        return value

    @model_validator(mode="after")
    def _consistent(self) -> RouteSettings:
        if "offsets" in self.sync and "groups" not in self.sync:
            raise ValueError("sync has offsets without groups: brokers refuse offsets of groups they do not have")
        if self.retry_topics and "groups" not in self.sync:
            raise ValueError("retry_topics needs groups in sync: brokers refuse retries of unknown groups")
        if self.protect_target and "topics" not in self.sync:
            raise ValueError("protect_target needs topics in sync, which sets their perm")
        if self.backfill and self.transforms:
            raise ValueError("backfill and transforms are both set, but Spark's tasks copy messages as they are")
        if self.tags and self.sql:
            raise ValueError("tags and sql are both set, but a broker filters by one of them: keep one")
        for wanted in self.topics:
            for out in self.exclude_topics:
                of_one = _NAME.fullmatch(wanted) and re.fullmatch(out, wanted)
                if wanted == out or of_one or out in (".*", ".+"):
                    raise ValueError(
                        f"topics has {wanted!r}, and exclude_topics {out!r}: none of it would be copied"
                    )
        return self

    def start_timestamp(self) -> Literal["earliest", "latest"] | int:
        """`start_from`; a time as milliseconds since the epoch (UTC where it names no zone)."""
        if self.start_from == "earliest" or self.start_from == "latest":
            return self.start_from  # type: ignore[return-value]
        return milliseconds(self.start_from)


class Settings(RouteSettings, BaseSettings):
    """One worker of a group, and the route that it brings along."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, env_prefix=ENV_PREFIX, env_nested_delimiter="__", validate_default=False
    )

    source: Cluster = Field(description="cluster to copy from")
    target: Cluster = Field(description="cluster to copy to")
    connector: str = Field("route", description="name of the route, as REST and the command line call it")
    memory_bytes: Size = Field(32 * 1024**2, description="memory for messages in flight, all queues together")
    worker_group: str | None = Field(
        None, description="workers of one group share the work (default: SOURCE-TARGET, the clusters' ids)"
    )
    worker_group_secret_file: Path | None = Field(
        None,
        description="file with the secret by which the group's workers sign what they write to the system topics;"
        " `replicator secret FILE` makes one; `sync` with acl needs it",
    )
    worker_group_accept_unsigned: bool = Field(
        False, description="also believe what is not signed, while workers get the secret one after the other"
    )
    worker_id: str | None = Field(
        None, description="name of this worker (default: generated once, kept in store_path)"
    )
    standalone: bool = Field(False, description="run alone, without system topics on the source cluster")
    assignment: str = Field(
        "sticky",
        description="how tasks are assigned to workers: sticky, even, consistent-hash, or an installed one",
    )
    heartbeat_interval: Seconds = Field(1.0, ge=0.1, le=60, description="seconds between heartbeats")
    session_timeout: Seconds = Field(
        5.0, ge=0.5, description="seconds without a heartbeat after which a worker's tasks are assigned to others"
    )
    source_online_topic: str = Field(
        "replicator_sys_source_online",
        description="system topic of the heartbeats of workers that reach the source",
    )
    sink_online_topic: str = Field(
        "replicator_sys_sink_online", description="system topic of the heartbeats of workers that reach the target"
    )
    control_topic: str = Field(
        "replicator_sys_control", description="system topic of the group's shared configuration and progress"
    )
    state_publish_interval: Seconds = Field(
        2.0, ge=0.1, description="seconds between publications of progress to the group"
    )
    state_republish_interval: Seconds = Field(
        600.0, ge=1, description="seconds between publications of all shared state, for workers that join"
    )
    stall_timeout: Seconds = Field(
        60.0, ge=1, description="seconds without progress after which a queue that lags is restarted"
    )
    spark_master: str | None = Field(
        None, description="Spark's master, for `backfill` and the Spark commands (default: local[*,4])"
    )
    store_path: Path = Field(Path("replicator-store"), description="directory of the state files")
    acl: AclSettings = AclSettings()
    file_connector_dir: Path | None = Field(
        None, description="directory whose files the connectors file-source and file-sink may use (default: none)"
    )
    rest: RestSettings = RestSettings()
    metadata_refresh_interval: Seconds = Field(
        5.0, ge=0.1, description="seconds between checks for new topics and queues"
    )
    state_flush_interval: Seconds = Field(1.0, ge=0.1, description="seconds between writes of the state files")
    settle_timeout: Seconds = Field(
        1.0, ge=0, description="seconds that a dead owner's last request may still wait in a broker"
    )
    drain_timeout: Seconds = Field(30.0, ge=0, description="seconds for sending what was pulled, when stopping")
    metrics_per_queue: bool = Field(
        False, description="also export lag, position and copied messages of each queue in /metrics"
    )
    log_level: Level = Field("info", description="least severity logged")

    @field_validator("store_path", "file_connector_dir", "worker_group_secret_file", mode="before")
    @classmethod
    def _path(cls, value: object) -> object:
        return some_path(value)

    @field_validator("memory_bytes")
    @classmethod
    def _enough(cls, value: int) -> int:
        if value < 1024**2:
            raise ValueError("at least 1 MiB is needed for one pull of each of a few queues")
        return value

    @field_validator("source_online_topic", "sink_online_topic", "control_topic")
    @classmethod
    def _system_topic(cls, value: str) -> str:
        return topic_name(value)

    @field_validator("connector", "worker_group", "worker_id")
    @classmethod
    def _name(cls, value: str | None) -> str | None:
        if value is not None and not valid_id(value):
            raise ValueError("a name has up to 100 letters, digits and _ . : @ -")
        return value

    @model_validator(mode="after")
    def _group(self) -> Settings:
        if self.session_timeout < 3 * self.heartbeat_interval:
            raise ValueError(
                f"session_timeout = {self.session_timeout:g} is less than three heartbeat_interval"
                f" ({self.heartbeat_interval:g}): one late heartbeat would cost a worker its tasks"
            )
        if self.backfill and self.standalone:
            raise ValueError(
                "backfill and standalone are both set, but Spark's tasks send by the group's heartbeats:"
                " run `replicator backfill` before"
            )
        if self.file_connector_dir is not None:
            reach = self.file_connector_dir.resolve()
            for name, path in _paths(self):
                if name != "file_connector_dir" and path.resolve().is_relative_to(reach):
                    raise ValueError(
                        f"{name} = {str(path)!r} is inside file_connector_dir = {str(self.file_connector_dir)!r},"
                        " where connectors read and write: give the one or the other another place"
                    )
        if self.worker_group_accept_unsigned and self.worker_group_secret_file is None:
            raise ValueError("worker_group_accept_unsigned has no effect without worker_group_secret_file")
        if "acl" in self.sync and not self.standalone and not self.is_signed:
            raise ValueError(
                "sync has acl, so whoever writes to the system topics could change accounts at the target: make a"
                " secret with `replicator secret FILE`, and set worker_group_secret_file to it on all workers of"
                " the group, without worker_group_accept_unsigned"
            )
        if len({self.source_online_topic, self.sink_online_topic, self.control_topic}) < 3:
            raise ValueError(
                "source_online_topic, sink_online_topic and control_topic must be three different topics"
            )
        return self

    @property
    def is_signed(self) -> bool:
        """Whether only what the group's workers have signed is believed."""
        return self.worker_group_secret_file is not None and not self.worker_group_accept_unsigned

    @property
    def route(self) -> RouteSettings:
        """The route alone."""
        return RouteSettings(**{name: getattr(self, name) for name in RouteSettings.model_fields})

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


def _paths(model: BaseModel, prefix: str = "") -> Iterator[tuple[str, Path]]:
    """The dotted names of all settings that are paths."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _paths(value, f"{prefix}{name}.")
        elif isinstance(value, Path):
            yield prefix + name, value


def setting_fields(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """The dotted names of all settings, each with its description; clusters first, then the route."""
    for name, field in sorted(model.model_fields.items(), key=lambda item: item[0] not in ("source", "target")):
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from setting_fields(kind, f"{prefix}{name}.")
        else:
            yield prefix + (field.alias or name), field
