"""What REST answers, for OpenAPI. Each answer of a handler is one of these, in the envelope; tests compare them."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import ConfigDict, Field

from replicator.api.answer import Answer
from replicator.api.audit_answers import AuditDifference, Differences, VerifiedTo

__all__ = [
    "Cluster",
    "ConnectorInfo",
    "ConnectorList",
    "ConnectorStatus",
    "CopyOfKey",
    "Envelope",
    "Errors",
    "Location",
    "LogLevel",
    "NamedState",
    "Option",
    "Plugin",
    "QueueMapping",
    "QueueStatus",
    "RatesShown",
    "Ready",
    "Task",
    "TaskOfWorker",
    "Validation",
    "WorkerStatus",
]

Body = TypeVar("Body")


class Envelope(Answer, Generic[Body]):
    """RocketMQ Connect's envelope; `status` is the HTTP status, too."""

    status: Annotated[int, Field(description="the HTTP status")]
    body: Body


class Errors(Answer):
    """Why a request was refused, in the envelope."""

    errors: Annotated[list[str], Field(description="one line for each mistake or cause")]
    hint: Annotated[str, Field(description="what to do about it; may be empty")]


#: How a queue, a topic or a task is doing; UNASSIGNED: no worker runs the task.
TaskState = Literal[
    "STARTING", "BACKFILLING", "RECOVERING", "RUNNING", "WAITING", "FAILED", "STOPPED", "PAUSED", "UNASSIGNED"
]
ConnectorState = Literal["RUNNING", "PAUSED", "STOPPED"]


class Queue(Answer):
    broker: str
    queue: Annotated[int, Field(description="queue id")]


class Location(Queue):
    """Where a message is."""

    topic: str
    offset: int


class CopyOfKey(Answer):
    """A copy, and the message that it is a copy of."""

    source: Location
    target: Location


class WorkerInfo(Answer):
    worker_id: str
    address: Annotated[str, Field(description="host:port of its REST")]
    version: str
    state: Literal["ONLINE", "LEAVING", "LEFT"]
    waiting_for: Annotated[
        str,
        Field(
            description="what must happen before this worker joins its group: the job that must end, or"
            " `the source` that must be back; empty: nothing"
        ),
    ]
    leader: bool
    takes_tasks: bool
    tasks: Annotated[int, Field(description="number of tasks that it runs")]


class Cluster(Answer):
    """The group of workers."""

    group: str
    source: Annotated[str, Field(description="id of the source cluster")]
    target: Annotated[str, Field(description="id of the target cluster")]
    generation: Annotated[int, Field(description="number of the current assignment")]
    leader: str
    rebalancing: bool
    workers: list[WorkerInfo]


class Task(Answer):
    id: Annotated[str, Field(description="name within its connector: topic, topic/broker/queue, or a plugin's own")]
    worker_id: str
    state: TaskState
    trace: Annotated[
        str | None,
        Field(
            description="why it failed, as its worker last published it; null unless its state is FAILED, and where"
            " it is a queue that its worker has not published (`GET /connectors/{name}/queues` has all of them)"
        ),
    ]


class TaskOfWorker(Answer):
    connector: str
    task: str
    state: TaskState


class TaskName(Answer):
    connector: str
    task: str


class ConnectorInfo(Answer):
    name: str
    config: dict[str, Any]
    tasks: list[TaskName]
    type: Literal["ROUTE", "SOURCE", "SINK"]


class ConnectorCondition(Answer):
    state: ConnectorState
    worker_id: Annotated[str, Field(description="the group's leader, which assigns its tasks")]


class TopicStatus(Answer):
    """The sum over a topic's queues; counters count messages."""

    topic: str
    connector: str
    queues: int
    failed: Annotated[int, Field(description="queues that have failed")]
    waiting: Annotated[int, Field(description="queues that wait for a cluster or a right")]
    severity: Annotated[int, Field(description="rank of the worst state among its queues; higher is worse")]
    state: TaskState
    reason: str
    stalled: Annotated[int, Field(description="queues that lag and make no progress even after a restart")]
    copied: Annotated[
        int, Field(description="in /status: since the worker's process started; in a connector's status: in total")
    ]
    copied_in_all: Annotated[
        int | None, Field(description="since the route was created, by any worker; only in /status")
    ] = None
    lag_messages: int
    lag_seconds: Annotated[
        float, Field(description="age of the oldest message that is not at the target yet; 0: none")
    ]
    gap_messages: int
    target_lost: Annotated[int, Field(description="messages that the target had acknowledged and then lost")]
    late: Annotated[int, Field(description="stored before the source was declared dead, copied after it came back")]
    duplicates: int
    foreign: int
    skipped: int
    verified: Annotated[int, Field(description="read back at the target, and compared with what was sent")]
    unverified: Annotated[int, Field(description="not read back, for a reason that /metrics has")]
    audit_differences: Annotated[int, Field(description="not at the target as they were sent")]
    verified_age_seconds: Annotated[
        float, Field(description="age of the oldest copy that is to be read back and was not yet; 0: none")
    ]


class ConnectorStatus(Answer):
    name: str
    connector: ConnectorCondition
    tasks: list[Task]
    topics: list[TopicStatus]
    problems: Annotated[dict[str, str], Field(description="by topic, why it cannot be copied")]
    source_away: Annotated[
        str, Field(description="why this worker cannot reach the source cluster, so no lag is known; empty: it can")
    ] = ""
    source_seen_at: Annotated[
        float | None,
        Field(description="when it reached that last, in seconds since the epoch; null: not since it started"),
    ] = None
    type: Literal["ROUTE", "SOURCE", "SINK"]


class ListedConnector(Answer):
    status: ConnectorStatus
    info: ConnectorInfo


ConnectorList = dict[str, ListedConnector]


class NamedState(Answer):
    name: str
    state: ConnectorState


class RatesShown(Answer):
    """Limits of a connector over all workers, per second; 0 is no limit."""

    rate_messages: int
    rate_bytes: int


class QueueMapping(Answer):
    """A source queue and the target queue that it is copied to."""

    topic: str
    target_topic: str
    source: Queue
    target: Queue
    position: Annotated[
        int | None, Field(description="all messages before this source offset are copied; null: not known")
    ]
    verified_to: VerifiedTo
    differences: Differences


class ForeignOffsets(Answer):
    first: Annotated[int, Field(description="target offset of the first one that this worker has looked at")]
    last: Annotated[int, Field(description="target offset of the last one")]


class QueueStatus(Answer):
    """One queue that this worker copies; counters start with its process."""

    topic: str
    connector: str
    stalled: bool
    source: Queue
    target: Queue
    state: TaskState
    reason: str
    position: Annotated[int | None, Field(description="next source offset")]
    max_offset: Annotated[int | None, Field(description="source offset where the queue ends")]
    lag_messages: int
    copied: int
    copied_in_all: int
    skipped: Annotated[dict[str, int], Field(description="by reason")]
    gap_messages: int
    resets: int
    target_lost: int
    late: int
    duplicates: int
    foreign: int
    foreign_offsets: Annotated[
        ForeignOffsets | None, Field(description="where the foreign messages are; null: none was looked at yet")
    ]
    retries: int
    verified_to: VerifiedTo
    verified_age_seconds: Annotated[
        float, Field(description="age of the oldest copy that is to be read back and was not yet; 0: none")
    ]
    verified: Annotated[int, Field(description="messages that were read back and compared")]
    unverified: Annotated[dict[str, int], Field(description="messages that were not read back, by reason")]
    differences: Differences
    latest_differences: Annotated[list[AuditDifference], Field(description="the last five")]


class WorkerStatus(Answer):
    """This worker alone."""

    version: str
    worker: str
    source: str
    target: str
    waiting_for: str
    control_messages_ignored: Annotated[dict[str, int], Field(description="by reason, as in /metrics")]
    topics: list[TopicStatus]
    problems: dict[str, str]


class Ready(Answer):
    ready: Annotated[
        bool, Field(description="whether this worker is in its group, and all topics that it reports are copied")
    ]
    reasons: Annotated[dict[str, str], Field(description="why not, by topic, or `worker`")]


class Plugin(Answer):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    class_: Annotated[str, Field(alias="class")]
    type: Literal["ROUTE", "SOURCE", "SINK", "TRANSFORM", "ASSIGNMENT", "BROKEN"]
    version: str


class Option(Answer):
    name: Annotated[str, Field(description="name of the setting")]
    default: Any
    documentation: str | None
    required: bool


class Validation(Answer):
    valid: bool
    errors: list[str]


class LogLevel(Answer):
    level: Literal["debug", "info", "warning", "error"]
