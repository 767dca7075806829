"""The sections in which help and the reference list the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["SECTIONS", "section_of"]

#: The settings of each section: a name, or the first part of the names of a nested table.
SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Source": ("source",),
    "Target": ("target",),
    "Selection": (
        *(
            "topics",
            "exclude_topics",
            "rename",
            "start_from",
            "tags",
            "sql",
            "transforms",
            "forward",
            "retry_topics",
            "dlq_topics",
        ),
    ),
    "Policies": (
        *("on_error", "on_gap", "on_target_loss", "on_other_source", "dead_letter_topic", "born_timestamp"),
        *("audit", "audit_share"),
    ),
    "Limits": (
        *(
            "rate_messages",
            "rate_bytes",
            "compression_type",
            "compress_over",
            "batch_messages",
            "batch_bytes",
            "memory_bytes",
            "pulls_in_flight",
        ),
    ),
    "Metadata": (
        *("sync", "sync_groups", "exclude_groups", "sync_topics_interval", "sync_groups_interval"),
        *("sync_offsets_interval", "sync_acl_interval", "sync_deletes", "on_drift", "protect_target"),
    ),
    "Accounts": ("acl",),
    "Group of workers": (
        *(
            "connector",
            "initial_state",
            "worker_group",
            "worker_group_secret_file",
            "worker_group_accept_unsigned",
            "worker_id",
            "workers",
            "standalone",
            "coordination",
            "assignment",
            "task_granularity",
        ),
        *("heartbeat_interval", "session_timeout", "source_online_topic", "sink_online_topic", "control_topic"),
        *("state_publish_interval", "state_republish_interval", "settle_timeout"),
    ),
    "Worker": (
        *("store_path", "state_flush_interval", "metadata_refresh_interval", "stall_timeout", "drain_timeout"),
        *("file_connector_dir", "metrics_per_queue", "log_level"),
    ),
    "REST": ("rest",),
    "Spark": ("engine", "backfill", "backfill_min_lag", "spark_master"),
}

_OF: Final = {name: section for section, names in SECTIONS.items() for name in names}


def section_of(setting: str) -> str:
    """The section of a setting.

    Raises:
        KeyError: `setting` is none.
    """
    return _OF.get(setting) or _OF[setting.partition(".")[0]]
