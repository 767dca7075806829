"""rocketmq-client-python as an independent client: programs that exchange lines of JSON, one process each.

The client has one connection pool per process for all clusters and can crash its process, so the replicator's
processes never import it.
"""
