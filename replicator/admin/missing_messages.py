"""Which of a failover's topics have messages that the target lacks, and the refusal to wait for those in vain."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Final

from replicator.admin.failover_turn import NotNow
from replicator.admin.topic_lag import topic_lags
from replicator.connector.route import Route
from replicator.observe.counted import counted
from replicator.state.connector_configs import Connector, State
from replicator.worker.worker import Worker

__all__ = ["missing_topics", "refuse_standing"]

#: Topics that a refusal names.
_FEW: Final = 8


async def missing_topics(
    worker: Worker, route: Route, concerns: Callable[[str], bool], *, patience: float = inf
) -> list[dict[str, Any]]:
    """Topics with messages that are not at the target, or whose state is not known.

    Args:
        concerns: whether a topic is failed over.
        patience: seconds after which no more requests are made.
    """
    await route.keep(ended=True)
    lags = await topic_lags(route, worker.context, patience=patience)
    concerned = (each for each in lags if concerns(each["topic"]) or each["topic"] in route.topics.parked)
    return [each for each in concerned if each["messages"] or each["problem"]]


async def refuse_standing(
    worker: Worker, connector: Connector, route: Route, concerns: Callable[[str], bool]
) -> None:
    """Checks that a route that stands still lacks nothing: it would be waited for in vain.

    A failover of some topics that was interrupted has stopped it by itself, and is repeated all the same.

    Raises:
        NotNow: it lacks messages.
    """
    if connector.state is State.RUNNING or route.sync.ledger.get("failover").get("resume"):
        return
    lacking = [each for each in await missing_topics(worker, route, concerns) if each["messages"]]
    if not lacking:
        return
    topics = ", ".join(f"{each['topic']} ({counted(each['messages'], 'message')})" for each in lacking[:_FEW])
    more = f" and {len(lacking) - _FEW:,} more topics" if len(lacking) > _FEW else ""
    raise NotNow(
        f"connector {connector.name} is {connector.state}, so it does not copy what"
        f" {worker.identity.target} lacks of {worker.identity.source}: {topics}{more}; nothing was changed",
        hint=f"`replicator connectors resume {connector.name}`, wait until `replicator lag` shows that nothing is"
        " left, and repeat this",
    )
