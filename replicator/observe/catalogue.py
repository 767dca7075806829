"""Every metric that there is: its name, what it counts, and by which labels. docs/METRICS.md is made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["ALWAYS", "JOBS", "METRICS", "PREFIX", "Spec"]

PREFIX: Final = "rocketmq_replicator_"
#: Labels of all metrics but `build_info`: the clusters' ids.
ALWAYS: Final = ("source", "target")
_TOPIC: Final = ("connector", "topic")
_QUEUE: Final = (*_TOPIC, "broker", "queue")
_SYNC: Final = ("connector", "resource")
_ROUTE: Final = ("connector",)


@dataclass(frozen=True, slots=True)
class Spec:
    """A metric, its name without the prefix and without what samples end in (`_total` of a counter).

    `everywhere`: it has the labels of `ALWAYS`.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    text: str
    labels: tuple[str, ...] = ()
    everywhere: bool = True


METRICS: Final = {
    spec.name: spec
    for spec in (
        Spec("messages_replicated", "counter", "Messages that the target has acknowledged.", _TOPIC),
        Spec("batches_sent", "counter", "Batches that the target has acknowledged.", _TOPIC),
        Spec(
            "bytes_replicated",
            "counter",
            "Bytes (bodies and properties) of replicated messages sent to the target.",
            _TOPIC,
        ),
        Spec(
            "messages_skipped",
            "counter",
            "Messages skipped, by reason: `filter` (tags, sql), `loop` (born at the target, or came through it),"
            " `released` (sent by a failover), `transform`, `error` (on_error=skip), `dead-letter`.",
            (*_TOPIC, "reason"),
        ),
        Spec("source_gap_messages", "counter", "Messages that the source lost before they were read.", _TOPIC),
        Spec("source_resets", "counter", "Source queues found truncated or recreated.", _TOPIC),
        Spec(
            "target_lost_messages",
            "counter",
            "Messages that the target had acknowledged and then lost.",
            _TOPIC,
        ),
        Spec(
            "late_messages",
            "counter",
            "Messages that the source had stored before it was declared dead, copied after it came back.",
            _TOPIC,
        ),
        Spec("duplicate_messages", "counter", "Copies found more than once in a target queue.", _TOPIC),
        Spec(
            "foreign_messages",
            "counter",
            "Messages in mapped target queues not written by the replicator.",
            _TOPIC,
        ),
        Spec(
            "verified_messages",
            "counter",
            "Messages that the audit has read back at the target and compared with what was sent.",
            _TOPIC,
        ),
        Spec(
            "unverified_messages",
            "counter",
            "Messages that the audit did not read back, by reason: `sampling` (`audit_share`, or the audit would"
            " take too much of the CPU), `retention` (the target has deleted them already), `takeover`, `settings`"
            " and `reset` (sent by another worker, with other settings, or of a queue that has started over),"
            " `backfill` (copied by Spark jobs of the route, or before them and not verified yet), `error`.",
            (*_TOPIC, "reason"),
        ),
        Spec(
            "verified_age_seconds",
            "gauge",
            "Age of the oldest copy that the audit is to read back and has not yet; 0: none.",
            _TOPIC,
        ),
        Spec(
            "audit_differences",
            "counter",
            "Messages that are not at the target as they were sent, by finding.",
            (*_TOPIC, "finding"),
        ),
        Spec("send_retries", "counter", "Sends that the target refused temporarily.", _TOPIC),
        Spec(
            "errors",
            "counter",
            "Errors, by what each meant for the queue and by the broker's code (or unreachable, timeout).",
            (*_TOPIC, "outcome", "code"),
        ),
        Spec("in_flight_messages", "gauge", "Messages pulled that the target has not acknowledged yet.", _TOPIC),
        Spec("source_wait_seconds", "counter", "Total time queues waited for messages from the source.", _TOPIC),
        Spec(
            "target_wait_seconds",
            "counter",
            "Total time queues waited for the target to answer, or to be less busy.",
            _TOPIC,
        ),
        Spec("lag_messages", "gauge", "Messages that the source has and the target has not.", _TOPIC),
        Spec(
            "lag_seconds",
            "gauge",
            "Age of the oldest message that the target lacks, 0 if none; by the source broker's clock, or by the"
            " worker's with coordination=target.",
            _TOPIC,
        ),
        Spec("queues", "gauge", "Source queues by state.", (*_TOPIC, "state")),
        Spec("queues_stalled", "gauge", "Queues that lag and make no progress even after a restart.", _TOPIC),
        Spec(
            "replication_latency_seconds",
            "histogram",
            "Time from being stored at the source to being acknowledged by the target.",
            _ROUTE,
        ),
        Spec(
            "message_latency_seconds",
            "counter",
            "Sum of replication latency over all messages, by topic; divided by messages_replicated it is the"
            " average.",
            _TOPIC,
        ),
        Spec("buffer_used_bytes", "gauge", "Memory held by messages in flight."),
        Spec("buffer_limit_bytes", "gauge", "Limit of buffer_used_bytes: the setting memory_bytes."),
        Spec("throttled_seconds", "counter", "Time that batches waited for the rate limits."),
        Spec(
            "metadata_refresh_last_success_timestamp_seconds",
            "gauge",
            "When both clusters' metadata was last refreshed.",
        ),
        Spec("state_save_last_success_timestamp_seconds", "gauge", "When the state was last written to disk."),
        Spec(
            "state_mirror_last_success_timestamp_seconds",
            "gauge",
            "When the group's state was last written to the target, for a failover without the source; 0: never."
            " Absent where the group coordinates over the target, or there is none.",
        ),
        Spec("worker_group_members", "gauge", "Workers of the group that this one sees, including itself."),
        Spec("assignment_generation", "gauge", "Generation of the current assignment; it increases with each."),
        Spec("rebalances", "counter", "Rebalances: times that tasks were assigned again."),
        Spec("rebalance_duration_seconds", "counter", "Total time of rebalances, until every task had an owner."),
        Spec("rebalancing", "gauge", "1 during a rebalance, else 0."),
        Spec("tasks", "gauge", "Tasks that run here."),
        Spec("lease_held", "gauge", "1 if this worker may send (its lease holds), else 0."),
        Spec(
            "heartbeat_last_echo_timestamp_seconds",
            "gauge",
            "When the newest of this worker's heartbeats that it has read back was sent, by side (source, sink).",
            ("side",),
        ),
        Spec(
            "member_last_heartbeat_timestamp_seconds",
            "gauge",
            "When the last heartbeat of another worker arrived, by its id.",
            ("worker",),
        ),
        Spec("fencings", "counter", "Times that this worker lost its lease and stopped all its tasks."),
        Spec(
            "control_messages_ignored",
            "counter",
            "Messages on the system topics that were ignored: `unsigned` and `wrong_signature` cannot be"
            " verified as sent by a worker of the group, `replayed` were written again by another program, `stale`"
            " came late, as after a broker was paused, or were written again,"
            " `unreadable` and `newer` cannot be read by this version, `failed` could not be handled.",
            ("reason",),
        ),
        Spec(
            "shared_state_records_skipped",
            "counter",
            "Shared-state records skipped as malformed, by `topic` or `file`.",
            ("origin",),
        ),
        Spec(
            "sync_last_success_timestamp_seconds",
            "gauge",
            "When a resource (topics, groups, offsets, acl) was last synced completely.",
            _SYNC,
        ),
        Spec("sync_actions_applied", "counter", "Changes made at the target, since the task first ran.", _SYNC),
        Spec("sync_failed_actions", "gauge", "Changes that the target refused the last time.", _SYNC),
        Spec("sync_blocked_actions", "gauge", "Differences that are not corrected automatically.", _SYNC),
        Spec(
            "sync_drifted_items",
            "gauge",
            "Settings changed manually at the target (included in sync_blocked_actions).",
            _SYNC,
        ),
        Spec(
            "consumer_group_redelivery_messages",
            "gauge",
            "Messages consumer groups would receive again after a failover now.",
            ("connector",),
        ),
        Spec(
            "consumer_group_missed_messages",
            "gauge",
            "Messages consumer groups would miss after a failover now.",
            _ROUTE,
        ),
        Spec(
            "consumer_group_queues_without_offset",
            "gauge",
            "Queues for which consumer groups have no offset at the target yet.",
            ("connector",),
        ),
        Spec("event_loop_delay_seconds", "gauge", "Maximum event-loop lag in the last minute."),
        Spec(
            "queue_messages_replicated",
            "counter",
            "As messages_replicated, of each source queue; with metrics_per_queue.",
            _QUEUE,
        ),
        Spec("queue_lag_messages", "gauge", "As lag_messages, where it is known; with metrics_per_queue.", _QUEUE),
        Spec("queue_lag_seconds", "gauge", "As lag_seconds, where it is known; with metrics_per_queue.", _QUEUE),
        Spec(
            "queue_position",
            "gauge",
            "Source offset up to which everything is copied or skipped, where it is known; with metrics_per_queue.",
            _QUEUE,
        ),
        Spec(
            "queue_verified_offset",
            "gauge",
            "Source offset before which all copies are verified, or counted as unverified, where it is known;"
            " with metrics_per_queue.",
            _QUEUE,
        ),
        Spec("build_info", "gauge", "The program's version.", ("version",), everywhere=False),
    )
}


def _job_spec(name: str, kind: Literal["counter", "gauge"], text: str, *labels: str) -> Spec:
    return Spec(name, kind, text, ("command", *labels), everywhere=False)


#: What a Spark job says on the port that `--metrics-port` gives it; none has the labels of `ALWAYS`.
JOBS: Final = {
    spec.name: spec
    for spec in (
        _job_spec("job_messages", "counter", "Messages that the job has copied, read or written."),
        _job_spec("job_messages_expected", "gauge", "Messages that the job has to process in all, where known."),
        _job_spec("job_queues", "gauge", "Queues by state: open, done, failed.", "state"),
        _job_spec(
            "job_findings", "gauge", "Findings: gaps, duplicates, and differences that verify found.", "finding"
        ),
        _job_spec("job_last_progress_timestamp_seconds", "gauge", "When the last message was processed."),
    )
}
