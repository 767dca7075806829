"""What commands print as JSON where it is not an answer of REST; docs/cli-schemas.json describes all of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from replicator.api.sync_answers import FailoverReport
from replicator.command_output import Report

__all__ = [
    "AclApplied",
    "AclPlanned",
    "AclStatus",
    "CopiedQueue",
    "CopyReport",
    "Dialect",
    "ExportReport",
    "FindingKind",
    "Package",
    "SettingValue",
    "Switched",
    "VerifyReport",
    "Versions",
]

Dialect = Literal["none", "1.0", "2.0"]


class SettingValue(Report):
    """A setting that a command would use."""

    value: Any
    origin: Annotated[str, Field(alias="from", description="flag, environment variable, file, or default")]


class Versions(Report):
    """The installed software."""

    version: str
    python: str
    platform: str
    pyspark: Annotated[str | None, Field(description="null: not installed")]
    compiled: Annotated[bool, Field(description="the packing of batches runs as compiled code")]


class Switched(Report):
    """A failover by one of two opposite connectors."""

    failover: FailoverReport
    resumed: Annotated[str | None, Field(description="the opposite connector; null: not all was done, it was left")]


class Package(Report):
    """Environment variables with which Spark ships the package, and the program for spark-submit."""

    spark_conf_dir: str
    pyspark_python: str
    submit: str


class AclAction(Report):
    """A change of an account at one target broker; secrets are never shown."""

    broker: str
    action: Literal["delete", "update", "create", "adopt", "forget", "white list"]
    account: str
    changes: list[str]
    blocked: Annotated[str, Field(description="why it is not done; empty: it is")]


class AclAttempted(AclAction):
    """An action that was attempted."""

    error: Annotated[str, Field(description="why it failed; empty: it succeeded")]


class AclNote(Report):
    """What was not taken over exactly, or not at all."""

    account: Annotated[str, Field(description="empty: it concerns no single account")]
    text: str


class UnreachableBroker(Report):
    """A broker of either side that could not be asked."""

    broker: str
    reason: str


class AclPlanned(Report):
    """What `acl apply` would change, in the order in which it is done."""

    source: Annotated[Dialect, Field(description="access control that the source speaks")]
    targets: Annotated[dict[str, Dialect], Field(description="access control of each target broker")]
    actions: list[AclAction]
    notes: list[AclNote]
    unreachable_brokers: list[UnreachableBroker]


class AclApplied(AclPlanned):
    """The plan, and what became of it."""

    applied: Annotated[list[AclAttempted], Field(description="empty if nothing was changed")]


class AclBroker(Report):
    """The accounts of one target broker."""

    broker: str
    acl: Dialect
    ours: Annotated[int, Field(description="accounts that are kept as they are at the source")]
    pending: Annotated[int, Field(description="actions that `acl apply` would do")]
    blocked: Annotated[int, Field(description="actions that it would not do")]


class AclStatus(Report):
    """What each target broker still lacks of the source's accounts."""

    source: Dialect
    brokers: list[AclBroker]
    unreachable_brokers: list[UnreachableBroker]


class QueueRange(Report):
    """Offsets of one source queue."""

    key: Annotated[str, Field(description="topic/broker/queue")]
    start: int
    end: Annotated[int, Field(description="exclusive")]
    seconds: float
    error: Annotated[str, Field(description="why it was not done to its end; empty: it was")]


class LastCopy(Report):
    """A copy, by the offsets of both sides."""

    source: int
    stored: Annotated[int, Field(description="when the source stored it, in milliseconds since the epoch")]
    target: int


class CopiedQueue(QueueRange):
    """A range that was copied; without an error its counts of source messages add up to `end` - `start`."""

    copied: Annotated[int, Field(description="messages that the last attempt sent")]
    before: Annotated[int, Field(description="messages that were at the target when it started")]
    gaps: Annotated[int, Field(description="messages that the source no longer had")]
    left_out: Annotated[dict[str, int], Field(description="messages that the route's filters left out, by reason")]
    first: Annotated[int | None, Field(description="first target offset that the attempt knows")]
    last: Annotated[int | None, Field(description="last target offset that the attempt knows")]
    tail: Annotated[LastCopy | None, Field(description="the last copy")]
    resets: Annotated[int, Field(description="how often the source queue started over")]
    duplicates: Annotated[int, Field(description="second copies at the target")]
    foreign: Annotated[int, Field(description="messages of other producers between the copies")]


class CopyReport(Report):
    """The outcome of `backfill` or `import`."""

    complete: Annotated[bool, Field(description="every range was copied to its end")]
    ranges: Annotated[int, Field(description="all ranges; `queues` has those with an outcome")]
    copied: int
    before: int
    queues: list[CopiedQueue]


class ArchiveFile(Report):
    """A Parquet file of the archive."""

    path: Annotated[str, Field(description="within the archive")]
    rows: int
    first: Annotated[int, Field(description="source offset of its first message")]
    last: Annotated[int, Field(description="source offset of its last message")]
    size: Annotated[int, Field(description="bytes")]


class ExportedQueue(QueueRange):
    """A range that was written to files."""

    messages: int
    gaps: Annotated[int, Field(description="messages that the source no longer had")]
    files: list[ArchiveFile]


class ExportReport(Report):
    """The outcome of `export`, over all its runs into the same archive."""

    complete: Annotated[bool, Field(description="every queue was written to its end")]
    messages: int
    bytes: int
    queues: list[ExportedQueue]


FindingKind = Literal[
    "missing",
    "duplicate",
    "reordered",
    "body",
    "flag",
    "properties",
    "header",
    "origin",
    "stale",
    "unknown",
    "misplaced",
    "extra",
]


class FoundDifference(Report):
    """A message with a difference; an offset is null if that side has no such message."""

    kind: FindingKind
    source: int | None
    target: int | None
    detail: str
    uniq_key: Annotated[str, Field(description="the message's UNIQ_KEY; empty: it has none")]
    keys: Annotated[str, Field(description="the message's KEYS; empty: it has none")]
    stored: Annotated[
        int | None,
        Field(
            description="when the source stored the message, in milliseconds since the epoch; when the target did, "
            "if the source has no such message"
        ),
    ]


class ComparedQueue(QueueRange):
    """A source queue compared with its target queue."""

    target: Annotated[str, Field(description="topic/broker/queue at the target")]
    behind: Annotated[
        int, Field(description="source offsets that were not compared, since they are not copied yet")
    ]
    selected: Annotated[int, Field(description="source messages that should have a copy")]
    copies: int
    source_digest: str
    target_digest: Annotated[str, Field(description="equal to `source_digest` if the copies are the same")]
    counts: Annotated[dict[FindingKind, int], Field(description="differences by kind")]
    findings: Annotated[list[FoundDifference], Field(description="the first of each kind")]
    differing: Annotated[list[int], Field(description="numbers of the runs of 4096 source offsets with a finding")]
    caveat: Annotated[
        str | None, Field(description="why no difference does not mean that all is there; null: it does")
    ]


class VerifyReport(Report):
    """The outcome of `verify`."""

    clean: Annotated[bool, Field(description="no difference, and no queue that could not be compared")]
    counts: Annotated[dict[FindingKind, int], Field(description="differences of all queues by kind")]
    queues: list[ComparedQueue]
