"""Topics that no user has made: those of brokers, of their tools, and the replicator's own."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

__all__ = [
    "DEAD_LETTER_PREFIX",
    "DECIDED_TOPIC",
    "HALF_TOPIC",
    "INTERNAL_PREFIX",
    "LIGHT_PREFIX",
    "RETRY_PREFIX",
    "SCHEDULE_TOPIC",
    "TIMER_TOPIC",
    "is_group_topic",
    "is_system",
]

#: Topics that the replicator itself makes begin so; they are never copied.
INTERNAL_PREFIX: Final = "replicator_sys_"

#: In front of a group's name, the topic of what it could not consume and will be given again.
RETRY_PREFIX: Final = "%RETRY%"
#: And that of what it has given up.
DEAD_LETTER_PREFIX: Final = "%DLQ%"

#: In front of the name of a light message queue (LMQ), which is not a topic.
LIGHT_PREFIX: Final = "%LMQ%"

#: Where brokers keep messages of delay levels, of the timer (5.x), half messages, and which of these were committed
#: or rolled back.
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
DECIDED_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"

#: `TopicValidator.SYSTEM_TOPIC_SET`, of all versions, and what brokers make at their start.
_SYSTEM: Final = frozenset(
    {
        "TBW102",
        SCHEDULE_TOPIC,
        "BenchmarkTest",
        HALF_TOPIC,
        "RMQ_SYS_TRACE_TOPIC",
        DECIDED_TOPIC,
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
        "DefaultHeartBeatSyncerTopic",
    }
)
_SYSTEM_PREFIXES: Final = ("rmq_sys_", RETRY_PREFIX, DEAD_LETTER_PREFIX, LIGHT_PREFIX, "%SYS%", INTERNAL_PREFIX)
_REPLIES: Final = "_REPLY_TOPIC"


def is_group_topic(topic: str) -> bool:
    """Whether brokers put into it, with all their properties, messages of other topics that a group failed on."""
    return topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))


def is_system(topic: str, names: Collection[str] = ()) -> bool:
    """Whether `topic` is not one of a user's.

    Args:
        names: those of clusters and brokers, which have topics of their own.
    """
    if topic in _SYSTEM or topic.startswith(_SYSTEM_PREFIXES) or topic in names:
        return True
    return topic.endswith(_REPLIES) and topic.removesuffix(_REPLIES) in names
