"""The settings of a worker: names, types, defaults, and what goes together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, Field, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from replicator.observe.level import Level
from replicator.settings.acl import AclSettings
from replicator.settings.clusters import Cluster, valid_id
from replicator.settings.proxy import REFUSED_TARGET, mistakes_with_proxy, names_proxy, with_proxy_defaults
from replicator.settings.rest import RestSettings
from replicator.settings.route import RouteSettings, Seconds, topic_name
from replicator.settings.sizes import Size
from replicator.settings.table import FilePath, SomePath

__all__ = ["ENV_PREFIX", "Settings", "setting_fields"]

ENV_PREFIX: Final = "REPLICATOR_"


class Settings(RouteSettings, BaseSettings):
    """One worker of a group, and the route that it brings along."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, env_prefix=ENV_PREFIX, env_nested_delimiter="__", validate_default=False
    )

    source: Cluster = Field(description="cluster to copy from")
    target: Cluster = Field(description="cluster to copy to")
    connector: str = Field("route", description="name of the route, as REST and the command line call it")
    initial_state: Literal["running", "paused", "stopped"] = Field(
        "running",
        description="state of the route if the group does not have it yet; `stopped` for a way back that must not"
        " touch the cluster in use",
    )
    memory_bytes: Size = Field(32 * 1024**2, description="memory for messages in flight, all queues together")
    worker_group: str | None = Field(
        None, description="workers of one group share the work (default: SOURCE-TARGET, the clusters' ids)"
    )
    worker_group_secret_file: FilePath = Field(
        None,
        description="file with the secret by which the group's workers sign what they write to the system topics;"
        " `replicator secret FILE` makes one; `sync` with acl needs it",
    )
    worker_group_accept_unsigned: bool = Field(
        False,
        description="also accept unsigned control messages and unsealed copies while the secret is rolled out",
    )
    worker_id: str | None = Field(
        None, description="name of this worker (default: generated once, kept in store_path)"
    )
    workers: int = Field(
        1,
        ge=1,
        le=64,
        description="worker processes on this machine, each with memory_bytes; the second one keeps its state in"
        " STORE_PATH-2 and has the next REST port, and so on",
    )
    standalone: bool = Field(False, description="run alone, without system topics")
    coordination: Literal["source", "target"] = Field(
        "source",
        description="cluster whose system topics the worker group coordinates over; `source` mirrors its state to"
        " the target, `target` creates no topic at the source",
    )
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
        None,
        min_length=1,
        description="Spark's master, for `backfill` and the Spark commands (default: the one in Spark's settings,"
        " else local[*,4])",
    )
    store_path: SomePath = Field(Path("replicator-store"), description="directory of the state files")
    acl: AclSettings = AclSettings()
    file_connector_dir: FilePath = Field(
        None, description="directory whose files the connectors file-source and file-sink may use (default: none)"
    )
    rest: RestSettings = RestSettings()
    metadata_refresh_interval: Seconds = Field(
        5.0, ge=0.1, description="seconds between checks for new topics and queues"
    )
    state_flush_interval: Seconds = Field(1.0, ge=0.1, description="seconds between writes of the state files")
    settle_timeout: Seconds = Field(
        1.0, ge=0, description="seconds to wait until a broker has stored what a dead worker sent last"
    )
    drain_timeout: Seconds = Field(
        30.0,
        ge=0,
        description="seconds for sending what was pulled, but for what rate limits hold back, when stopping",
    )
    metrics_per_queue: bool = Field(
        False, description="also export lag, position and copied messages of each queue in /metrics"
    )
    log_level: Level = Field("info", description="minimum severity to log")

    @property
    def wants_spark(self) -> bool:
        """Whether a worker with these settings needs PySpark and Java."""
        return self.backfill or self.spark_master is not None or self.engine == "spark"

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

    @model_validator(mode="before")
    @classmethod
    def _through_a_proxy(cls, given: Any) -> Any:
        if isinstance(given, dict) and names_proxy(given.get("source")):
            return with_proxy_defaults(given)
        return given

    @model_validator(mode="after")
    def _can_use_a_proxy(self) -> Settings:
        if self.target.proxy:
            raise ValueError(REFUSED_TARGET)
        if not self.source.proxy:
            return self
        mistakes = [*mistakes_with_proxy(self)]
        if self.coordination == "source" and not self.standalone:
            mistakes.append(
                "coordination = 'source', but no topic can be created through a Proxy: set coordination = target"
            )
        if self.spark_master is not None:
            mistakes.append("spark_master is set, but Spark's tasks do not read through a Proxy: leave it out")
        if mistakes:
            raise ValueError("source.proxy is set: " + "; ".join(mistakes))
        return self

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
        if self.workers > 1 and self.standalone:
            raise ValueError("workers is more than 1 and standalone is set, but workers share the work as a group")
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

    @model_validator(mode="after")
    def _several(self) -> Settings:
        """What each process has to itself does for the last one, too: the others may copy when that is refused."""
        last = self.rest.port + self.workers - 1
        if self.rest.port and last > 65535:
            raise ValueError(
                f"workers = {self.workers} and rest.port = {self.rest.port} are too much together, since each"
                f" process has the next port and {last} is none: give a lower port, or 0 for any free ones"
            )
        if self.workers > 1 and self.worker_id is not None and not valid_id(f"{self.worker_id}-{self.workers}"):
            raise ValueError(
                f"worker_id = {self.worker_id!r} is too long for {self.workers} workers: with -1 and so on at its"
                " end it has up to 100 characters"
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
