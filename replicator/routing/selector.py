"""Which topics a route copies, and what they are called at the target."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from replicator.client.system_topics import (
    DEAD_LETTER_PREFIX,
    INTERNAL_PREFIX,
    RETRY_PREFIX,
    is_group_topic,
    is_system,
)
from replicator.errors import ConfigError
from replicator.settings.name_patterns import NamePatterns, name_patterns

__all__ = [
    "INTERNAL_PREFIX",
    "MAX_TOPIC",
    "TopicSelector",
    "compile_patterns",
    "refuse_template",
    "refused_name",
    "rename",
    "rename_retries",
]

#: Characters in a topic's name (`TopicValidator.TOPIC_MAX_LENGTH`).
MAX_TOPIC: Final = 127
_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")
#: Between group and topic in the names of POP consumers' retry topics: with and without `enableRetryTopicV2`
#: (`KeyBuilder.buildPopRetryTopic`).
_POP_NEWER: Final = "+"
_POP_OLDER: Final = "_"


_NO_NAMES: Final = NamePatterns(())


def compile_patterns(field: str, patterns: Sequence[str]) -> NamePatterns:
    """Names or regular expressions, each of which must match a whole name.

    Raises:
        ConfigError: one is an invalid regular expression.
    """
    try:
        return name_patterns(tuple(patterns))
    except ValueError as error:
        raise ConfigError(
            f"{field}: {error}", hint="give names or regular expressions separated by commas"
        ) from None


def _none(_: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class TopicSelector:
    """Included and not excluded; an exclusion wins.

    Retry topics are those of the groups that `retries` selects, dead-letter topics those that `dead_letters` does.
    """

    include: NamePatterns
    exclude: NamePatterns = _NO_NAMES
    retries: Callable[[str], bool] = _none
    dead_letters: Callable[[str], bool] = _none

    @classmethod
    def of(
        cls,
        topics: Sequence[str],
        exclude: Sequence[str],
        *,
        retries: Callable[[str], bool] = _none,
        dead_letters: Callable[[str], bool] = _none,
    ) -> TopicSelector:
        """That of a route with these settings.

        Raises:
            ConfigError: one is an invalid regular expression.
        """
        included = compile_patterns("topics", topics)
        return cls(included, compile_patterns("exclude_topics", exclude), retries, dead_letters)

    def selects(self, topic: str, *, system: Collection[str] = ()) -> bool:
        """Whether `topic` is copied.

        Args:
            system: further names that brokers made for themselves: those of clusters and brokers.

        Raises:
            ConfigError: a regular expression takes too long to match it.
        """
        if is_group_topic(topic) and self.exclude.match(topic):
            return False
        if topic.startswith(RETRY_PREFIX):
            return self._selects_retries(topic.removeprefix(RETRY_PREFIX))
        if topic.startswith(DEAD_LETTER_PREFIX):
            return self.dead_letters(topic.removeprefix(DEAD_LETTER_PREFIX))
        return not is_system(topic, system) and self._includes(topic)

    def _selects_retries(self, of: str) -> bool:
        """Whether retries are copied: a group's, or those of its POP consumers for a topic that is copied."""
        group, is_newer, topic = of.partition(_POP_NEWER)
        if is_newer:
            return self.retries(group) and self._includes(topic)
        at = [index for index, each in enumerate(of) if each == _POP_OLDER]
        return self.retries(of) or any(self.retries(of[:i]) and self._includes(of[i + 1 :]) for i in at)

    def _includes(self, topic: str) -> bool:
        return self.include.match(topic) and not self.exclude.match(topic)


def refused_name(name: str) -> str:
    """Why no broker would take a topic of that name; empty where one would."""
    if len(name) <= MAX_TOPIC and _LEGAL.fullmatch(name):
        return ""
    return f"brokers refuse the name {name!r}: at most {MAX_TOPIC} letters, digits, %, |, _ and - are possible"


def refuse_template(template: str, *, source: str, target: str) -> None:
    """Whether `template` gives any topic a name that is possible.

    Raises:
        ConfigError: not even one with the shortest name.
    """
    if problem := refused_name(rename(template, "T", source=source, target=target)):
        raise ConfigError(f"rename = {template!r} fits no topic: {problem}", hint="give another template")


def rename(template: str, topic: str, *, source: str, target: str) -> str:
    """The name at the target of a topic that is not a group's own; brokers may refuse it."""
    return template.format(topic=topic, source=source, target=target)


def rename_retries(retries: str, topics: Mapping[str, str]) -> str:
    """The name at the target of a retry topic: for POP consumers it has that of the topic there in it.

    Brokers refuse what clients send to the newer kind of name, and read both kinds: it becomes one of the older.

    Args:
        topics: names at the target by those at the source, of what is copied.
    """
    group, is_newer, topic = retries.partition(_POP_NEWER)
    if is_newer:
        return f"{group}{_POP_OLDER}{topics.get(topic, topic)}"
    of = max((topic for topic in topics if retries.endswith(_POP_OLDER + topic)), key=len, default="")
    return retries.removesuffix(of) + topics[of] if of else retries
