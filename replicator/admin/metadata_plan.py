"""The changes that a route's metadata needs now, for somebody who waits for the answer."""

from __future__ import annotations

from typing import Any

from replicator.admin.silent_brokers import look_at
from replicator.connector.context import ConnectorContext
from replicator.connector.route import Route

__all__ = ["metadata_plan"]


async def metadata_plan(route: Route, context: ConnectorContext) -> list[dict[str, Any]]:
    """Its steps, and what is not known; a broker that hangs costs seconds, once.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: a cluster could not be asked.
    """
    async with look_at(context.source.cluster, context.target.cluster):
        plan = await route.sync.plan()
    return [each.shown() for each in (*plan.steps, *plan.unasked)]
