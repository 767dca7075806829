"""Which topics a route copies, and what they are called at the target."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from replicator.errors import ConfigError

__all__ = ["INTERNAL_PREFIX", "MAX_TOPIC", "RETRY_PREFIX", "TopicSelector", "compile_patterns", "rename"]

#: Topics that the replicator itself makes begin so; they are never copied.
INTERNAL_PREFIX: Final = "replicator_sys_"

#: In front of a group's name, the topic of what it could not consume and will be given again.
RETRY_PREFIX: Final = "%RETRY%"

#: Characters in a topic's name (`TopicValidator.TOPIC_MAX_LENGTH`).
MAX_TOPIC: Final = 127
_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")
_PLAIN = re.compile(r"[%a-zA-Z0-9_-]+")

#: `TopicValidator.SYSTEM_TOPIC_SET`, of all versions, and what brokers make at their start.
_SYSTEM: Final = frozenset(
    {
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
        "DefaultHeartBeatSyncerTopic",
    }
)
_SYSTEM_PREFIXES: Final = ("rmq_sys_", RETRY_PREFIX, "%DLQ%", "%LMQ%", "%SYS%", INTERNAL_PREFIX)


def compile_patterns(field: str, patterns: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    """Names or regular expressions, each of which must match a whole name.

    Raises:
        ConfigError: one is an invalid regular expression.
    """
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(re.escape(pattern) if _PLAIN.fullmatch(pattern) else pattern))
        except re.error as error:
            raise ConfigError(
                f"{field} has {pattern!r}, which is an invalid regular expression ({error})",
                hint="give names or regular expressions separated by commas",
            ) from None
    return tuple(compiled)


@dataclass(frozen=True, slots=True)
class TopicSelector:
    """Included and not excluded; an exclusion wins. Retry topics are those of the groups that `retries` selects."""

    include: tuple[re.Pattern[str], ...]
    exclude: tuple[re.Pattern[str], ...] = ()
    retries: Callable[[str], bool] = lambda _: False

    @classmethod
    def of(
        cls,
        topics: Sequence[str],
        exclude: Sequence[str],
        *,
        retries: Callable[[str], bool] = lambda _: False,
    ) -> TopicSelector:
        """That of a route with these settings.

        Raises:
            ConfigError: one is an invalid regular expression.
        """
        return cls(compile_patterns("topics", topics), compile_patterns("exclude_topics", exclude), retries)

    def selects(self, topic: str, *, system: Collection[str] = ()) -> bool:
        """Whether `topic` is copied.

        Args:
            system: further names that brokers made for themselves: those of clusters and brokers.
        """
        if topic.startswith(RETRY_PREFIX):
            return self.retries(topic.removeprefix(RETRY_PREFIX))
        if topic in _SYSTEM or topic.startswith(_SYSTEM_PREFIXES) or topic in system:
            return False
        if topic.endswith("_REPLY_TOPIC") and topic.removesuffix("_REPLY_TOPIC") in system:
            return False
        return _any(self.include, topic) and not _any(self.exclude, topic)


def _any(patterns: tuple[re.Pattern[str], ...], topic: str) -> bool:
    return any(pattern.fullmatch(topic) for pattern in patterns)


def rename(template: str, topic: str, *, source: str, target: str) -> str:
    """The name at the target; groups look for their retry topics under the same name everywhere.

    Raises:
        ConfigError: no broker would take that name.
    """
    if topic.startswith(RETRY_PREFIX):
        return topic
    name = template.format(topic=topic, source=source, target=target)
    if len(name) > MAX_TOPIC or not _LEGAL.fullmatch(name):
        raise ConfigError(
            f"rename = {template!r} makes {name!r} of topic {topic!r}, which brokers refuse",
            hint=f"at most {MAX_TOPIC} letters, digits, %, |, _ and - are possible",
        )
    return name
