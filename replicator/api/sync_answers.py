"""What REST answers about everything but messages: the plan, readiness, failovers; see `answers`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from replicator.api.answer import Answer
from replicator.api.audit_answers import TopicAudit
from replicator.api.pending_answers import Pending, Released

__all__ = ["Applied", "FailoverReport", "PlanStep", "Readiness", "SyncStatus"]

Resource = Literal["topics", "groups", "offsets", "acl"]


class PlanStep(Answer):
    """A difference between what the target has and what it should have."""

    kind: Resource
    action: Literal["create", "update", "delete", "unknown"]
    broker: str
    name: Annotated[
        str,
        Field(
            description="of the topic, consumer group or account; for offsets `GROUP in TOPIC queue N`; empty where"
            " a broker could not be read"
        ),
    ]
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    blocked: Annotated[str, Field(description="why it is not applied automatically; empty: it is")]
    note: str
    error: Annotated[
        str | None, Field(description="why a cluster or broker could not be read, if the action is `unknown`")
    ] = None


class Applied(PlanStep):
    """A step that was attempted; `error` is empty if it succeeded."""


class AuditedChange(Applied):
    """A change of the target's metadata that was attempted, as in the audit log."""

    at: Annotated[float, Field(description="when, in seconds since the epoch")]
    worker: Annotated[str, Field(description="id of the worker that attempted it")]
    connector: str
    actor: Annotated[str, Field(description="who asked for it; empty: nobody, it was due")] = ""


class ResourceSync(Answer):
    """How the sync of topics, groups, offsets or accounts is doing."""

    at: Annotated[
        float, Field(description="when all of it succeeded last, in seconds since the epoch; 0: it never has")
    ]
    applied: Annotated[int, Field(description="changes that were made since the connector was created")]
    blocked: Annotated[int, Field(description="differences that are not applied automatically; the plan says why")]
    drift: Annotated[int, Field(description="of these, what somebody has changed at the target")]
    failed: Annotated[int, Field(description="changes that failed the last time")]
    reasons: Annotated[list[str], Field(description="why not all of it succeeded the last time")]
    redelivered: Annotated[
        int | None, Field(description="of offsets: messages that consumer groups would get again at the target")
    ] = None
    missed: Annotated[
        int | None, Field(description="of offsets: messages that consumer groups would never get there")
    ] = None
    without_offset: Annotated[
        int | None, Field(description="of offsets: queues of consumer groups that have no offset there")
    ] = None


class SyncStatus(Answer):
    """How the metadata task is doing; empty before it has run."""

    owner: Annotated[str | None, Field(description="worker that runs it")] = None
    kinds: Annotated[
        dict[Resource, ResourceSync], Field(default_factory=dict, description="by resource, how its sync is doing")
    ]
    audit: Annotated[list[AuditedChange], Field(description="the last hundred changes except those of offsets")]
    stopped_by_failover_at: Annotated[
        float | None,
        Field(
            description="when a failover stopped the route, complete or not, in seconds since the epoch, if it is"
            " stopped ever since; null: none did"
        ),
    ] = None


class UnknownQueue(Answer):
    """A source queue whose end cannot be asked for, and how far it was copied."""

    broker: str
    queue: int
    position: Annotated[int | None, Field(description="the next offset to copy; null: nothing was copied")]
    copied_until: Annotated[
        float | None,
        Field(description="when the source stored the last message that was copied, in seconds since the epoch"),
    ]


class TopicLag(Answer):
    """What the target lacks of a topic."""

    topic: str
    target: Annotated[str, Field(description="its name at the target")]
    messages: Annotated[int, Field(description="that the route would copy and the target does not have")]
    counted: Annotated[
        bool, Field(description="false: `messages` is an upper bound, since there was no time to read all of them")
    ]
    seconds: Annotated[float, Field(description="age of the oldest of them, as far as it is known")]
    seconds_known: Annotated[
        bool, Field(description="false: the source has not given the oldest of them, which may be older")
    ]
    problem: str
    unknown_queues: list[UnknownQueue]


class GroupReadiness(Answer):
    """What a consumer group would find if it switched to the target now, in messages."""

    group: str
    topic: str
    redelivered: int
    missed: int
    without_offset: Annotated[int, Field(description="queues in which it has no offset at the target")]
    not_copied: Annotated[int, Field(description="consumed at the source and not copied yet")]
    before_start: Annotated[int, Field(description="from before the first copied message")]
    in_flight: Annotated[
        int, Field(description="delivered to its POP consumers and not acknowledged: it receives them again")
    ]
    to_retry_topic: Annotated[
        int, Field(description="those of them that a failover puts, or has put, into its retry topic at the target")
    ]
    acknowledged_after: Annotated[
        int,
        Field(description="acknowledged, behind the first of the others in flight: it receives them again, too"),
    ]
    stopped_by: Annotated[
        list[str], Field(description="unread foreign messages that keep its offset from advancing")
    ]
    held_back_by: Annotated[
        list[str],
        Field(description="why a failover leaves its offset before the first message in flight, in some queues"),
    ]


class Readiness(Answer):
    """Whether a failover now would be complete."""

    ready: Annotated[bool, Field(description="whether nothing would be missing or redelivered: `reasons` is empty")]
    reasons: list[str]
    failed_over_at: Annotated[
        float | None,
        Field(
            description="when the route was failed over, in seconds since the epoch, if it is stopped ever since:"
            " then neither groups' offsets nor topics' settings are reasons; null: it was not"
        ),
    ] = None
    state: Annotated[str | None, Field(description="what the connector is to do: RUNNING, PAUSED, STOPPED")] = None
    messages: int
    seconds: float
    topics: list[TopicLag]
    groups: list[GroupReadiness]
    differences: list[PlanStep]
    verified: list[TopicAudit]
    pending: Pending


class SyncedGroup(Answer):
    """A consumer group whose offsets at the target are those of the last sync."""

    group: str
    queues: Annotated[int, Field(description="in which it has an offset at the target")]


class SyncedOffsets(Answer):
    """As of when the offsets at the target are, where the source cannot be asked."""

    at: Annotated[
        float | None,
        Field(description="when all of them were synced last, in seconds since the epoch; null: that is not known"),
    ]
    groups: Annotated[list[SyncedGroup], Field(description="those that have offsets there")]


class FailoverReport(Answer):
    """What a failover has done, or would do."""

    connector: str
    topics: Annotated[list[str], Field(description="those that were to be switched; empty: all of the connector")]
    dry_run: Annotated[bool, Field(description="nothing was changed: what a failover now would do")]
    stopped: Annotated[bool, Field(description="no task of the connector runs")]
    drained: bool
    missing: list[TopicLag]
    offsets: Annotated[int, Field(description="consumer offsets written")]
    topics_opened: list[str]
    groups: list[GroupReadiness]
    synced: Annotated[
        SyncedOffsets | None,
        Field(description="with `source_dead`; null without it, and where no offsets are synced"),
    ] = None
    pending: Pending
    released: Annotated[Released | None, Field(description="null where the connector parks nothing")]
    problems: list[str]
