"""The brokers of both clusters, as the group knows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from replicator.client.discovery import Discovery
from replicator.connector.route import Route
from replicator.errors import ReplicatorError
from replicator.routing.message_queue import MessageQueue
from replicator.routing.queue_map import Queue
from replicator.state.known_brokers import Side, forgotten, record_of
from replicator.worker.worker import Worker

__all__ = ["MappedQueue", "brokers_of", "discovery_of", "known_brokers", "mapped_queues"]


class MappedQueue(NamedTuple):
    """A source queue with its target, as the queue map of a route has it."""

    connector: str
    source: MessageQueue
    target: Queue


def discovery_of(worker: Worker, side: Side) -> Discovery:
    """What `worker` has found of one cluster."""
    return worker.context.source if side == "source" else worker.context.target


def mapped_queues(worker: Worker) -> Iterator[MappedQueue]:
    """All queues that the group's routes copy or have copied, those of forgotten brokers too."""
    store = worker.store
    for name in sorted(worker.connectors.all()):
        if not isinstance(worker.routes.get(name), Route):
            continue
        for topic in sorted(store.queue_maps(name)):
            for source, target in sorted(store.whole_queue_map(name, topic).items()):
                yield MappedQueue(name, MessageQueue(topic, *source), target)


def brokers_of(worker: Worker, side: Side) -> dict[str, int]:
    """All brokers of one side that are there, were there, or are in a queue map; each with its mapped queues."""
    found = dict.fromkeys([*discovery_of(worker, side).cluster.brokers(), *forgotten(worker.store.state, side)], 0)
    for queue in mapped_queues(worker):
        broker = queue.source.broker if side == "source" else queue.target.broker
        found[broker] = found.get(broker, 0) + 1
    return found


async def known_brokers(worker: Worker) -> list[dict[str, Any]]:
    """All brokers of both sides, with what the name servers say of each now."""
    found = []
    for side in ("source", "target"):
        discovery = discovery_of(worker, side)
        try:
            listed = (await discovery.cluster.refresh()).brokers
        except ReplicatorError:
            listed = None
        for broker, queues in sorted(brokers_of(worker, side).items()):
            record = record_of(worker.store.state, side, broker)
            address = None if listed is None or broker not in listed else listed[broker].master
            if listed is None:
                state = "UNKNOWN"
            elif broker not in listed:
                # What was interrupted has a record, too: it has not been forgotten yet.
                state = "AWAY" if record is None or record["forgotten_at"] is None else "FORGOTTEN"
            elif address is None:
                state = "NO_MASTER"
            else:
                state = "ONLINE" if broker in discovery.masters else "SILENT"
            found.append(
                {
                    "side": side,
                    "broker": broker,
                    "state": state,
                    "master": address or "",
                    "queues": queues,
                    "forgotten_at": None if record is None else record["forgotten_at"],
                }
            )
    return found
