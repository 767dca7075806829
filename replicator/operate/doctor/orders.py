"""Order configurations at name servers: by them clients use the same queues of a topic while a broker is away.

They name brokers, so that no copy of one would be right at the target; what it would have to be there is said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from replicator.connector.context import ConnectorContext
from replicator.errors import ReplicatorError
from replicator.operate.doctor.finding import Finding, good, odd, unchecked
from replicator.routing.plan import TopicPlan

__all__ = ["examine_orders", "judge_orders"]

_CHECK: Final = "order configuration"


async def examine_orders(plans: Sequence[TopicPlan], context: ConnectorContext) -> list[Finding]:
    """Of each topic that has one at the source."""
    clusters = context.source.cluster, context.target.cluster
    try:
        source, target = await asyncio.gather(*(cluster.orders() for cluster in clusters))
    except ReplicatorError as error:
        return [unchecked(_CHECK, "name servers", f"which topics have one, because {error.message}")]
    return [*judge_orders(plans, source, target, namesrv=";".join(context.target.cluster.addresses))]


def judge_orders(
    plans: Iterable[TopicPlan], source: Mapping[str, str], target: Mapping[str, str], *, namesrv: str
) -> Iterator[Finding]:
    """Compares those of the source with those of the target.

    Args:
        source, target: by topic, `broker-a:8;broker-b:8`.
        namesrv: the name servers of the target.
    """
    for plan in plans:
        ours, theirs = source.get(plan.topic, ""), target.get(plan.target_topic, "")
        if not ours:
            continue
        wanted = _translated(ours, plan)
        if theirs and _numbers(theirs) == _numbers(wanted):
            yield good(_CHECK, plan.target_topic, f"the target's name servers have it: {theirs}")
            continue
        has = f"the target's have {theirs!r}" if theirs else "the target's have none"
        message = (
            f"the source's name servers have {ours!r}, and {has}: it is not copied, and after a switch the queue of"
            " a key may change while a broker is away"
        )
        command = f"mqadmin updateOrderConf -n '{namesrv}' -m put -t {plan.target_topic} -v '{wanted}'"
        yield odd(_CHECK, plan.topic, message, command if wanted else "set it with `mqadmin updateOrderConf` there")


def _numbers(configuration: str) -> dict[str, int]:
    """The queues of each broker; parts that are none are left out."""
    parts = (part.rpartition(":") for part in configuration.split(";"))
    return {broker: int(number) for broker, _, number in parts if broker and number.isdecimal()}


def _translated(ours: str, plan: TopicPlan) -> str:
    """That of the target, by where the copies of the queues go."""
    wanted: dict[str, int] = {}
    for source, target in plan.queue_map.items():
        if source.queue_id < _numbers(ours).get(source.broker, 0):
            wanted[target.broker] = max(wanted.get(target.broker, 0), target.queue_id + 1)
    return ";".join(f"{broker}:{number}" for broker, number in sorted(wanted.items()))
