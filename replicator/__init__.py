"""Cross-cluster replication for Apache RocketMQ."""

__version__ = "0.1.0"
