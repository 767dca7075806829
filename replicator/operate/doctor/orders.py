"""Order configurations at name servers: by them clients use the same queues of a topic while a broker is away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from replicator.client.order import OrderTables
from replicator.connector.context import ConnectorContext
from replicator.errors import ReplicatorError
from replicator.metadata.action import Action
from replicator.metadata.orders import order_of, plan_orders, translated
from replicator.metadata.topics import TopicPolicy
from replicator.operate.doctor.finding import Finding, good, odd, unchecked
from replicator.routing.plan import TopicPlan
from replicator.settings import RouteSettings

__all__ = ["examine_orders", "judge_orders"]

_CHECK: Final = "order configuration"


async def examine_orders(
    plans: Sequence[TopicPlan], context: ConnectorContext, settings: RouteSettings
) -> list[Finding]:
    """Of each topic that has one at the source."""
    clusters = context.source.cluster, context.target.cluster
    if clusters[0].is_proxy:
        return [_unchecked("a Proxy does not tell them")]
    try:
        source, target = await asyncio.gather(*(cluster.orders() for cluster in clusters))
    except ReplicatorError as error:
        return [_unchecked(error.message)]
    for each in (source, target):
        if not each.tables:
            return [_unchecked("; ".join(each.failures.values()))]
    syncs, repairs = "topics" in settings.sync, settings.on_drift == "repair"
    return [*judge_orders(plans, source, target, syncs=syncs, repairs=repairs)]


def _unchecked(why: str) -> Finding:
    return unchecked(_CHECK, "name servers", f"which topics have one, because {why}")


def judge_orders(
    plans: Iterable[TopicPlan], source: OrderTables, target: OrderTables, *, syncs: bool, repairs: bool
) -> Iterator[Finding]:
    """Compares those of the source with those of the target.

    Args:
        syncs: whether the route syncs topics, and so writes what the target lacks.
        repairs: whether it also replaces what the target had before.
    """
    policy = TopicPolicy(repair=repairs)
    for plan in plans:
        ours = order_of(plan.topic, source.tables)
        if not ours:
            continue
        planned = plan_orders(
            [plan], source.tables, target.tables, {}, silent=(), selects=lambda _: False, policy=policy
        )
        yield _judged(plan, ours, planned.actions, namesrv=";".join(target.tables), syncs=syncs)


def _judged(plan: TopicPlan, ours: str, actions: Sequence[Action], *, namesrv: str, syncs: bool) -> Finding:
    wanted, why = translated(ours, plan.queue_map)
    if not actions:
        return good(_CHECK, plan.target_topic, f"the target's name servers have it: {wanted}")
    theirs = "; ".join(
        f"{each.broker} has {'none' if each.before is None else repr(each.before['queues'])}" for each in actions
    )
    has = f"the source's name servers have {ours!r}; of the target's {theirs}"
    if syncs:
        reason = next((each.blocked for each in actions if each.blocked), "")
        if not reason:
            return good(_CHECK, plan.target_topic, f"{has}: the sync of topics writes {wanted!r}")
        cause, _, advice = reason.partition(": ")
        return odd(_CHECK, plan.topic, f"{has}: {cause}", advice)
    command = f"put topics into sync, or run: mqadmin updateOrderConf -n '{namesrv}' -m put -t {plan.target_topic}"
    message = f"{has}: without topics in sync it is not copied, and after a switch the queue of a key may change"
    return odd(_CHECK, plan.topic, message, why.partition(": ")[2] or f"{command} -v '{wanted}'")
