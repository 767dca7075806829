"""Ranges of queues, read, copied and compared; no Spark is needed."""
