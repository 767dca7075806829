"""What the route would meet: topics, rights, what others do at the target, who copies already."""

from __future__ import annotations

from collections.abc import Mapping

from replicator.connector.context import ConnectorContext
from replicator.connector.topics import RouteTopics
from replicator.errors import ConfigError
from replicator.operate.doctor.facts import Facts
from replicator.operate.doctor.finding import Finding, bad
from replicator.operate.doctor.groups import examine_groups
from replicator.operate.doctor.orders import examine_orders
from replicator.operate.doctor.retry_topics import examine_retry_topics
from replicator.operate.doctor.rights import examine_rights
from replicator.operate.doctor.tails import examine_tails
from replicator.operate.doctor.topics import judge_topics
from replicator.operate.doctor.workers import examine_workers
from replicator.settings import Settings

__all__ = ["examine_route"]


async def examine_route(
    settings: Settings, context: ConnectorContext, source: Mapping[str, Facts], target: Mapping[str, Facts]
) -> list[Finding]:
    """What a worker with `settings` would meet; `source` and `target` are by the names of their brokers."""
    topics = RouteTopics(settings.connector, settings.route, context)
    try:
        topics.plan()
    except ConfigError as error:
        return [bad("topics", "rename", error.message, error.hint or "choose other names with --rename")]
    clear = [plan for plan in topics.plans if not plan.problem]
    typed = _typed(source), _typed(target)
    findings = [
        *judge_topics(
            topics.plans,
            context.source.topics,
            context.target.topics,
            settings.route,
            typed=typed,
            reserved={context.target.cluster_name, *context.target.topics},
        )
    ]
    findings += await examine_orders(clear, context, settings.route)
    findings += await examine_rights(settings, clear, context)
    findings += await examine_retry_topics(settings, clear, context, typed[1])
    findings += await examine_tails(clear, context, settings.route, source)
    findings += await examine_groups(settings, clear, context)
    findings += await examine_workers(settings, {plan.topic for plan in clear}, context, source, target)
    return findings


def _typed(brokers: Mapping[str, Facts]) -> set[str]:
    return {name for name, facts in brokers.items() if facts.version >= (5,)}
