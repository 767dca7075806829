"""How far queues lag that are not being pulled now; the others learn it from each answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from replicator.aio.bounded import bounded
from replicator.client.brokers import max_offset
from replicator.client.cluster import Cluster
from replicator.client.unresponsive import UnresponsiveBrokers
from replicator.errors import ClientError, ProtocolError
from replicator.routing.state import Phase, QueueState

__all__ = ["sample_lags"]

#: Concurrent requests.
_AT_ONCE: Final = 16
_ELSEWHERE: Final = (Phase.RUNNING, Phase.STARTING, Phase.STOPPED)


async def sample_lags(source: Cluster, states: Iterable[QueueState]) -> None:
    """Asks `source` where the queues of `states` end; one that does not say keeps the end that is known.

    A broker that does not answer is asked once, however many queues wait for it.
    """
    silence = UnresponsiveBrokers({})

    async def ask(state: QueueState) -> None:
        async def end() -> int:
            return await max_offset(source.reader(state.source.broker), state.topic, state.source.queue_id)

        try:
            state.progress.max_offset = await silence.ask(state.source.broker, end)
        except (ClientError, ProtocolError):
            return  # the queue's own reason says it already

    await bounded(ask, [state for state in states if state.phase not in _ELSEWHERE], at_once=_AT_ONCE)
