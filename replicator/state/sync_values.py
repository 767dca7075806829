"""The values of the records about metadata, by kind: what each field may be."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from replicator.state.record_values import Count, Int, Queue, Seconds, Text, Words, WorkerId

__all__ = [
    "AuditedChange",
    "Change",
    "EarlierAnswer",
    "HeldQueue",
    "OwnedAccounts",
    "Resource",
    "SyncAnswer",
    "SyncAudit",
    "SyncEntry",
    "SyncFailover",
    "SyncRelease",
    "SyncRequest",
    "SyncStatus",
    "SyncTopic",
    "TopicSettings",
]


class Resource(Struct):
    """How the sync of one kind is doing."""

    at: Seconds
    applied: Count
    blocked: Count
    drift: Count
    failed: Count
    reasons: list[Words]
    redelivered: Count = 0
    missed: Count = 0
    without_offset: Count = 0


class SyncStatus(Struct):
    """How the metadata task is doing."""

    owner: WorkerId = ""
    kinds: dict[Text, Resource] = {}


class Change(Struct):
    """What was done, or could not be, of one thing at the target."""

    kind: Text
    action: Text
    broker: Text
    name: Text
    before: dict[Text, Any] | None
    after: dict[Text, Any] | None
    blocked: Words
    note: Words
    error: Words


class AuditedChange(Change):
    """The same with when and where it was done, and who asked for it where somebody did."""

    at: Seconds
    worker: WorkerId
    connector: Text
    actor: Text = ""


class SyncAudit(Struct):
    """What the metadata task has changed last."""

    entries: list[AuditedChange] = []


class SyncRequest(Struct):
    """What a worker asks of the metadata task."""

    id: Text
    force: list[Text]
    until: Seconds
    by: Text = ""


class SyncRelease(Struct):
    """The release of parked messages that a failover has ordered: which worker sees to it, and of which topics.

    No topics stand for all; `done` says that nothing is left to be sent.
    """

    by: WorkerId
    topics: list[Text]
    done: bool


class SyncFailover(Struct, omit_defaults=True):
    """A failover that has not ended: which process is at it, by its incarnations where leases are held and at the
    target. Of some topics: the state to which the route returns, and whether one was opened. And when one stopped
    the whole route (`begun_at`) and was complete, until somebody decides otherwise. Empty: there is none.
    """

    by: Text = ""
    incarnation: Text = ""
    at_target: Text = ""
    resume: Literal["", "RUNNING", "PAUSED", "STOPPED"] = ""
    opened: bool = False
    failed_over_at: Seconds = 0.0
    begun_at: Seconds = 0.0


class HeldQueue(Struct):
    """What POP consumers of a group hold in a source queue: offsets, and when each was delivered (ms)."""

    group: Text
    topic: Text
    queue: Queue
    first: Count
    messages: Count
    delivered: Count
    held: Annotated[list[tuple[Count, Count]], Meta(max_length=10_000)]


class EarlierAnswer(Struct):
    """What the metadata task has made of a request before the last one."""

    id: Text
    done: list[Change] | None


class SyncAnswer(EarlierAnswer):
    """What the metadata task has made of a request, and of the last ones before it."""

    earlier: Annotated[list[EarlierAnswer], Meta(max_length=100)] = []


class OwnedAccounts(Struct):
    """Accounts at a target broker that are ours, addresses on its white list, and outlines of what was deleted."""

    accounts: dict[Text, Literal["created", "adopted"]]
    white: list[Text]
    deleted: dict[Text, Text] = {}


class TopicSettings(Struct):
    """What is compared of a topic; of its order configuration that are `queues` alone."""

    perm: Int = 0
    order: bool = False
    filter_type: Text = ""
    sys_flag: Int = 0
    attributes: dict[Text, Words] = {}
    queues: Words = ""


class SyncTopic(Struct):
    """What was written of a topic, and what the target made of it."""

    wanted: TopicSettings
    got: TopicSettings
    source: Text


class SyncEntry(Struct):
    """The same of what has settings that the replicator only compares: newer brokers have more of them."""

    wanted: dict[Text, Any]
    got: dict[Text, Any]
    source: Text
