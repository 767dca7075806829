"""What the settings of a route select, held to what the source has and to what the route has copied before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from replicator.client.system_topics import is_group_topic, is_system
from replicator.connector.context import ConnectorContext
from replicator.metadata.groups import GroupSelector
from replicator.observe.excerpt import excerpt
from replicator.observe.logging import get_logger
from replicator.routing.selector import TopicSelector
from replicator.routing.task_id import TaskId
from replicator.settings import RouteSettings
from replicator.settings.name_patterns import is_name
from replicator.state.record import Kind
from replicator.state.store import Store

__all__ = ["AbsentNames", "deselected", "reasons_of_deselected", "selector_of"]

#: Topics that a reason names.
_NAMED: Final = 10

log = get_logger(__name__)


def selector_of(settings: RouteSettings) -> TopicSelector:
    """Which topics of the source a route with these settings copies.

    Raises:
        ConfigError: a pattern of the settings is an invalid regular expression.
    """
    groups = GroupSelector.of(settings.sync_groups, settings.exclude_groups)
    return TopicSelector.of(
        settings.topics,
        settings.exclude_topics,
        retries=lambda group: settings.retry_topics and groups.selects(group),
        dead_letters=lambda group: settings.dlq_topics and groups.selects(group),
    )


class AbsentNames:
    """Warns of names in `topics` that no topic of the source has, each once: they may be mistyped."""

    def __init__(self, name: str, settings: RouteSettings, context: ConnectorContext) -> None:
        self._connector = name
        self._names = frozenset(filter(is_name, settings.topics))
        self._context = context
        self._known: frozenset[str] = frozenset()

    def look(self) -> None:
        """Warns of those that are absent now and were not at the last look."""
        source = self._context.source
        if not source.topics or not source.topics.keys() <= source.complete:
            return  # who has not answered may have them
        absent = self._names - {topic for topics in source.topics.values() for topic in topics}
        for topic in sorted(absent - self._known):
            log.warning(
                "topics names a topic that the source does not have",
                connector=self._connector,
                topic=topic,
                hint="correct the name; or leave it, and the topic is copied once it is created",
            )
        self._known = absent


def deselected(connector: str, selector: TopicSelector, context: ConnectorContext) -> list[str]:
    """Topics that the source still has, and that `connector` copied until its settings selected them no more.

    Not those that are excluded by name or pattern, which nobody does by mistake, nor those that another connector
    of the group copies now. Groups' topics follow their groups.
    """
    there = {topic for topics in context.source.topics.values() for topic in topics}
    if not there:  # it has been away since our start
        return []
    system = [*context.system_names()]
    of_others = _of_others(connector, context.store)
    return [
        topic
        for topic in sorted(_copied_before(connector, context.store) & there)
        if not is_group_topic(topic) and not is_system(topic, system)
        if not selector.selects(topic, system=system) and not selector.exclude.match(topic)
        if topic not in of_others
    ]


def _copied_before(connector: str, store: Store) -> set[str]:
    return {topic for topic, queue_map in store.queue_maps(connector).items() if queue_map}


def _of_others(connector: str, store: Store) -> set[str]:
    """Topics of the tasks that are assigned of other connectors."""
    assignment = store.state.get(Kind.ASSIGNMENT, "") or {"owners": {}}
    tasks = map(TaskId.parse, assignment["owners"])
    return {task.name for task in tasks if task.connector != connector}


def reasons_of_deselected(topics: Sequence[str]) -> Iterable[str]:
    """Why a failover would leave `topics` behind; in one line, for a changed pattern may leave thousands."""
    if topics:
        topic, were, are = ("topic", "was", "is") if len(topics) == 1 else ("topics", "were", "are")
        yield (
            f"{topic} {excerpt(topics, few=_NAMED)} {were} copied by this route and {are} not selected any more:"
            " what came to the source since is not at the target; add to topics what is missing there, or name in"
            " exclude_topics what is not to be copied"
        )
