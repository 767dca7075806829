"""What the name servers of both clusters have of order configurations now, looked at again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from replicator.client.cluster import Cluster
from replicator.client.order import OrderTables
from replicator.errors import ClientError
from replicator.metadata.ledger import Key, Ledger, Planned, Settings
from replicator.metadata.orders import Orders, is_order, items_of, plan_orders
from replicator.metadata.topics import TopicPolicy
from replicator.routing.plan import TopicPlan

__all__ = ["NameServerOrders"]

_NOTHING = OrderTables({}, {})


class NameServerOrders:
    """A source name server that does not answer keeps what was last known of it; one of the target is left out.

    `failures` are those that had to be known for the last plan, and did not answer: a name server that is down
    matters only where it lacks something.
    """

    def __init__(self, source: Cluster, target: Cluster) -> None:
        self.failures: dict[str, str] = {}
        self._clusters = (source, target)
        self._source = self._target = _NOTHING
        self._known: dict[str, Orders] = {}

    async def refresh(self) -> None:
        """Asks all name servers of both clusters, each for at most five seconds."""
        self._source, self._target = await asyncio.gather(*map(_read, self._clusters))
        silent = {address: self._known[address] for address in self._source.failures if address in self._known}
        self._known = {**self._source.tables, **silent}

    def forget_target(self) -> None:
        """Until the next refresh nothing is known of the target."""
        self._target = _NOTHING

    def plan(
        self,
        plans: Iterable[TopicPlan],
        ledger: Ledger,
        *,
        selects: Callable[[str], bool],
        policy: TopicPolicy,
    ) -> Planned:
        """What is to be done, as of the last refresh; the arguments are as for `plan_orders`."""
        ours = {key: entry for key, entry in ledger.items() if is_order(key)}
        plans = list(plans)
        planned = plan_orders(
            plans,
            self._known,
            self._target.tables,
            ours,
            silent=self._source.failures,
            selects=selects,
            policy=policy,
        )
        self.failures = {} if self._source.tables else dict(self._source.failures)
        if ours or any(plan.topic in orders for plan in plans for orders in self._known.values()):
            self.failures |= self._target.failures
        return planned

    async def since(self, *, written: bool) -> tuple[Mapping[Key, Settings], Iterable[str]]:
        """What the target has, and which name servers that is known of; read again if any of it was `written`."""
        if written:
            self._target = await _read(self._clusters[1])
        return items_of(self._target.tables), self._target.tables


async def _read(cluster: Cluster) -> OrderTables:
    try:
        return await cluster.orders()
    except ClientError as error:
        return OrderTables({}, {",".join(cluster.addresses): str(error)})
