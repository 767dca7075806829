"""The settings of one route: what is copied, and how. REST calls them a connector's configuration."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from string import Formatter
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from replicator.errors import ConfigError
from replicator.settings.clusters import comma_list
from replicator.settings.name_patterns import is_name, name_patterns
from replicator.settings.names import Names, Patterns
from replicator.settings.shown import quoted
from replicator.settings.sizes import Size
from replicator.settings.table import Table

__all__ = ["RouteSettings", "Seconds", "milliseconds", "topic_name"]

#: At most a year: greater ones are mistakes, and no timer takes all of them.
Seconds = Annotated[float, Field(le=365 * 86400, allow_inf_nan=False)]
#: Messages; greater ones fit into no counter of a broker.
_MOST: Final = 2**53
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: Topics, and exclusions, that are compared with each other before a start.
_COMPARED: Final = 10
_TOPIC = re.compile(r"[%|a-zA-Z0-9_-]+")
#: Of one tag; brokers take `A || B` for two tags, and `*` for all.
_TAG: Final = re.compile(r"[^|,\s]+")
#: What to do where a selection is empty.
_INSTEAD: Final = {
    "topics": "leave topics out to copy all",
    "sync_groups": "leave sync_groups out to sync all, or groups and offsets out of sync for none",
}


def _kinds(value: object) -> object:
    given = comma_list(value)
    return [] if given == ["none"] else given


SyncKinds = Annotated[list[Literal["topics", "groups", "offsets", "acl", "pending"]], BeforeValidator(_kinds)]


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


def _matches(out: str, wanted: str) -> bool:
    try:
        return name_patterns((out,)).match(wanted)
    except ConfigError as error:
        raise ValueError(error.message) from None


class RouteSettings(Table):
    """What a route copies and how; REST calls it a connector's configuration."""

    topics: Patterns = Field([".*"], description="topics to copy: names or regular expressions")
    exclude_topics: Patterns = Field([], description="topics not to copy; wins over `topics`")
    rename: str = Field("{topic}", description="name at the target; {topic}, {source}, {target} stand for names")
    start_from: str = Field("earliest", description="where new queues begin: earliest, latest, or an ISO 8601 time")
    tags: Names = Field([], description="copy only messages with one of these tags")
    sql: str | None = Field(None, description="copy only messages that this SQL92 expression selects")
    transforms: Names = Field(
        [], description="installed transforms that each message goes through, in order: NAME or NAME?KEY=VALUE"
    )
    compression_type: Literal["none", "zlib", "zstd"] = Field(
        "none",
        description="compress the bodies of copies that their producers have not compressed: zlib, which all"
        " clients read, or zstd, which takes less CPU time and which the C++ client, and the Python client built on"
        " it, cannot read",
    )
    compress_over: Size = Field(
        4096, ge=1, description="bytes of a body from which `compression_type` compresses it"
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
    on_other_source: Literal["fail", "own-queues", "share"] = Field(
        "fail",
        description="what to do with a topic whose queues at the target hold copies from another source: refuse it,"
        " use other queues there, so that groups of all sources keep exact offsets, or write to the same ones",
    )
    audit: Literal["on", "off"] = Field(
        "on", description="read back what was copied, and compare it with what was sent, while the route runs"
    )
    audit_share: float = Field(
        1.0,
        gt=0,
        le=1,
        description="share of the copied messages that is read back, at most (0 to 1); less where that would take"
        " more than about a fifth of the copy's CPU time",
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

    engine: Literal["live", "spark"] = Field(
        "live", description="what copies the messages: the worker itself, or Spark tasks that it runs"
    )
    backfill: bool | None = Field(
        None,
        description="let Spark copy what is in the queues at the start; by default only if `spark_master` is set"
        " and they lag at least `backfill_min_lag` messages behind",
    )
    backfill_min_lag: int = Field(
        10_000_000,
        ge=1,
        le=_MOST,
        description="total lag, in messages, of a worker's new queues from which Spark copies them by default",
    )

    sync: SyncKinds = Field(
        ["topics", "groups", "offsets", "pending"],
        description="what to sync besides messages: topics, groups, offsets, acl, and pending, which parks delayed"
        " and timer messages at the target while they wait at the source, and is left out by default with"
        " `transforms`; `none` for nothing",
    )
    sync_groups: Patterns = Field([".*"], description="consumer groups to sync: names or regular expressions")
    exclude_groups: Patterns = Field([], description="consumer groups not to sync; wins over `sync_groups`")
    retry_topics: bool = Field(
        False, description="also copy the retry topics of the groups that `sync_groups` selects"
    )
    dlq_topics: bool = Field(
        False,
        description="also copy the dead-letter topics (`%DLQ%GROUP`) of the groups that `sync_groups` selects",
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

    @field_validator("topics", "sync_groups")
    @classmethod
    def _selects_something(cls, value: list[str], info: ValidationInfo) -> list[str]:
        is_unused = info.field_name == "sync_groups" and not {"groups", "offsets"} & {*info.data.get("sync", ())}
        if not value and not is_unused:
            raise ValueError(f"it selects nothing: {_INSTEAD[str(info.field_name)]}")
        return value

    @field_validator("tags")
    @classmethod
    def _are_tags(cls, value: list[str]) -> list[str]:
        for tag in value:
            if tag == "*" or not _TAG.fullmatch(tag):
                raise ValueError(
                    f"{quoted(tag)} is not a tag: leave tags out to copy all; give several tags with commas"
                )
        return value

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

    @model_validator(mode="before")
    @classmethod
    def _without_pending(cls, given: Any) -> Any:
        """By default, where transforms may not be made for what waits at a source."""
        if isinstance(given, dict) and "sync" not in given and given.get("transforms"):
            return {**given, "sync": ["topics", "groups", "offsets"]}
        return given

    @model_validator(mode="after")
    def _can_be_synced(self) -> RouteSettings:
        if "offsets" in self.sync and "groups" not in self.sync and not all(map(is_name, self.sync_groups)):
            raise ValueError(
                "sync has offsets without groups: brokers refuse offsets of groups they do not have; name those"
                " that the target has in sync_groups, or sync groups, too"
            )
        if self.retry_topics and "groups" not in self.sync:
            raise ValueError("retry_topics needs groups in sync: brokers refuse retries of unknown groups")
        if self.protect_target and "topics" not in self.sync:
            raise ValueError("protect_target needs topics in sync, which sets their perm")
        if "acl" in self.sync and self.rename != "{topic}":
            raise ValueError(
                "sync has acl and rename is set, but rights name topics as the source calls them: at the target"
                " they would be rights to other topics"
            )
        return self

    @model_validator(mode="after")
    def _can_be_copied(self) -> RouteSettings:
        if self.backfill and self.engine == "spark":
            raise ValueError("backfill and engine=spark are both set, but Spark's tasks copy what there is already")
        if self.backfill and self.transforms:
            raise ValueError("backfill and transforms are both set, but Spark's tasks copy messages as they are")
        if self.tags and self.sql:
            raise ValueError("tags and sql are both set, but a broker filters by one of them: keep one")
        for wanted in self.topics[:_COMPARED]:
            for out in self.exclude_topics[:_COMPARED]:
                if wanted == out or out in (".*", ".+") or (is_name(wanted) and _matches(out, wanted)):
                    raise ValueError(
                        f"topics has {wanted!r}, and exclude_topics {out!r}: none of it would be copied"
                    )
        return self

    def start_timestamp(self) -> Literal["earliest", "latest"] | int:
        """`start_from`; a time as milliseconds since the epoch (UTC where it names no zone)."""
        if self.start_from == "earliest" or self.start_from == "latest":
            return self.start_from  # type: ignore[return-value]
        return milliseconds(self.start_from)
