"""Real RocketMQ clusters on this machine, for experiments, for the demo and for tests."""

from replicator.sandbox.broker import Broker
from replicator.sandbox.cluster import Cluster
from replicator.sandbox.nameserver import NameServer
from replicator.sandbox.spec import ClusterSpec

__all__ = ["Broker", "Cluster", "ClusterSpec", "NameServer"]
