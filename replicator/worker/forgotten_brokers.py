"""Brokers that the group treats as gone for good, as this worker follows them."""

from __future__ import annotations

from typing import Protocol

from replicator.client.cluster import Topology
from replicator.client.discovery import Discovery
from replicator.errors import is_absence
from replicator.observe.logging import get_logger
from replicator.state.known_brokers import Side, being_given_up, forgotten, key_of, record_value
from replicator.state.record import Kind
from replicator.state.store import Store

__all__ = ["ForgottenBrokers"]

log = get_logger(__name__)


class Log(Protocol):
    """A log of the group, with parts on several brokers."""

    def forget(self, broker: str) -> None:
        """No more waiting for the return of `broker`."""
        ...


class ForgottenBrokers:
    """Forgets what the group's state says, and remembers a broker that is back.

    Args:
        logs: those of the group on each side.
    """

    def __init__(self, store: Store, logs: dict[Side, list[Log]]) -> None:
        self._store = store
        self._logs = logs

    def follow(self, side: Side, discovery: Discovery, topology: Topology) -> bool:
        """Makes `discovery` and the logs agree with what the group has decided; whether anything has changed.

        Args:
            topology: what the name servers say now. A broker in it that answers is no longer forgotten, whoever
                sees it first; one that does not may be dead, and a name server not have noticed yet.
        """
        changed = False
        for broker in forgotten(self._store.state, side):
            if broker in topology.brokers:
                failure = discovery.failures.get(broker)
                if broker not in discovery.topics if failure is None else is_absence(failure):
                    continue
                key = key_of(side, broker)
                stopped = being_given_up(self._store.state).get(key, {})  # for it, and still to be given back
                self._store.put(Kind.BROKER, key, record_value(None, stopped))
                log.warning("forgotten broker is back: it is used again", side=side, broker=broker)
                changed = True
            elif discovery.forget(broker):
                log.warning("broker is forgotten", side=side, broker=broker)
                for each in self._logs[side]:
                    each.forget(broker)
                changed = True
        return changed
