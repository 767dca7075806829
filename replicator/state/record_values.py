"""The values that records have, by kind: what each field may be."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from replicator.routing.offset_map import MAX_INTERVALS

__all__ = [
    "HIDDEN",
    "Anomalies",
    "Assignment",
    "Audit",
    "Broker",
    "Clusters",
    "Connector",
    "ConnectorValue",
    "Count",
    "Int",
    "Noticed",
    "Offset",
    "Position",
    "Queue",
    "Seconds",
    "Source",
    "Status",
    "Target",
    "Task",
    "Text",
    "Topic",
    "Words",
    "WorkerId",
    "WorstQueue",
]

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
#: What changes what a terminal shows, beside the controls of ASCII: those of ISO 8859, line ends of Unicode, and
#: what has text run the other way.
HIDDEN: Final = r"\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
#: One line, of what is seen as it is.
Text = Annotated[str, Meta(max_length=1000, pattern=rf"\A[^\x00-\x1f{HIDDEN}]*\Z")]
#: An id of a worker, or empty: state that was made without one.
WorkerId = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_.:@-]{0,100}\Z")]
Connector = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_.:@-]{1,100}\Z")]
Queue = Annotated[str, Meta(max_length=300, pattern=rf"\A[^\x00-\x1f{HIDDEN}]+/[0-9]{{1,9}}\Z")]
#: For people, of several lines perhaps.
Words = Annotated[str, Meta(max_length=20_000, pattern=rf"\A[^\x00-\x08\x0b\x0c\x0e-\x1f{HIDDEN}]*\Z")]
#: Since the epoch, or of a duration: up to the year 2096. Greater ones are in no calendar.
Seconds = Annotated[float, Meta(ge=0, le=4e9)]
#: A number of Java's, as brokers have them in settings.
Int = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]


class ConnectorValue(Struct):
    """A connector: its configuration, and the state it is to have; it was changed from the version `after`.

    `by` asked for the change, where somebody did, and `reason` is what it was made for, where that is known.
    """

    config: dict[Text, Any]
    state: Literal["RUNNING", "PAUSED", "STOPPED"]
    origin: Literal["command line", "rest"]
    epoch: Count
    task_epochs: dict[Text, Count] = {}
    failed_over: Count = 0
    made: Count = 0
    after: tuple[Count, Text] | None = None
    by: Text = ""
    reason: Text = ""


class Task(Struct):
    """A topic's queue map: source queues with their target queues."""

    target_topic: Annotated[str, Meta(pattern=r"\A[%|a-zA-Z0-9_-]{1,255}\Z")]
    queues: dict[Queue, Queue]
    late: list[Queue]
    fresh: list[Queue]
    moved: dict[Queue, Literal["resend", "skip"]] = {}
    left: list[Queue] = []


class Assignment(Struct):
    """Which worker owns which task."""

    members: list[WorkerId]
    owners: dict[Text, WorkerId]


class Anomalies(Struct):
    """Counters that outlive owners."""

    gaps: Count = 0
    resets: Count = 0
    target_lost: Count = 0
    duplicates: Count = 0
    foreign: Count = 0
    late: Count = 0
    skipped: dict[Text, Count] = {}
    skipped_to: Count = 0
    lost: tuple[Count, Count] | None = None
    reset_at: Count | None = None
    lost_at_target: tuple[Count, Count] | None = None


class Audit(Struct):
    """How far a queue's copies are verified; `latest` are its last differences: kind, offsets, detail."""

    to: Count | None
    rules: Count
    verified: Count
    unverified: dict[Text, Count] = {}
    differences: dict[Text, Count] = {}
    latest: Annotated[list[tuple[Text, Count | None, Count | None, Text]], Meta(max_length=100)] = []


class Position(Struct):
    """Of a queue, or of a plugin's task: then only the plugin understands it. `made` is the connector's."""

    position: Count | dict[str, Any]
    start: Count | None = None
    copied: Count = 0
    known_end: Count = 0
    seen: tuple[Count, Count] | None = None
    resumed: Count | None = None
    anomalies: Anomalies | None = None
    audit: Audit | None = None
    made: Count = 0


class Offset(Struct):
    """What the target has of a queue. `made` is the connector's."""

    target_floor: Count
    store_timestamp: Count
    clean: bool
    intervals: Annotated[list[tuple[Count, Count, Count]], Meta(max_length=MAX_INTERVALS)]
    target: tuple[Text, Count] | None = None
    made: Count = 0


class Topic(Struct):
    """How a topic is doing, as its worker says."""

    topic: Text
    connector: Text
    state: Text
    reason: Words
    severity: Count
    queues: Count
    failed: Count
    waiting: Count
    stalled: Count
    copied: Count
    lag_messages: Count
    gap_messages: Count
    target_lost: Count
    duplicates: Count
    foreign: Count
    skipped: Count
    lag_seconds: Seconds
    copied_in_all: Count = 0
    late: Count = 0
    verified: Count = 0
    unverified: Count = 0
    audit_differences: Count = 0
    verified_age_seconds: Seconds = 0.0


class WorstQueue(Struct):
    """One of the queues of a worker that are furthest behind, or do not run."""

    connector: Text
    topic: Text
    broker: Text
    queue: Count
    state: Text
    reason: Words
    stalled: bool
    max_offset: Count
    lag_messages: Count


class Noticed(Struct):
    """A warning, an error, or a change that somebody asked for, as a worker has logged it."""

    at: Text
    level: Text
    event: Text
    actor: Text
    details: dict[Text, Text]


class RateUse(Struct):
    """What a worker has used of a connector's rate limits lately, a second; `waited`: it could have used more."""

    messages: Count
    size: Count
    waited: bool


class Status(Struct):
    """What a worker says of its topics, its worst queues, and what it has noticed last.

    `connector_problems` are the `problems` by connector; older versions do not say whose they are. `rates` are of
    connectors that have limits.
    """

    topics: list[Topic]
    problems: dict[Text, Words]
    connector_problems: dict[Connector, dict[Text, Words]] = {}
    queues: list[WorstQueue] = []
    events: list[Noticed] = []
    rates: dict[Connector, RateUse] = {}


class Source(Struct):
    """The source cluster."""

    id: Connector
    namesrv: Annotated[list[Text], Meta(max_length=1000)]


class Target(Struct):
    """The target cluster."""

    id: Connector


class Clusters(Struct):
    """Which clusters a group copies between."""

    group: Connector
    source: Source
    target: Target


class Broker(Struct):
    """A broker that was forgotten, or whose queues are being moved: then `resume` has the states of the connectors
    that were stopped for that.
    """

    forgotten_at: Seconds | None
    resume: Annotated[dict[str, Literal["RUNNING", "PAUSED", "STOPPED"]], Meta(max_length=10_000)] = {}
