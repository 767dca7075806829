"""rocketmq-client-python as an independent witness: programs that speak lines of JSON, one process each.

The client has one connection pool a process for all clusters and can take its process down, so nothing
of it is ever imported into ours.
"""
