"""The data source `rocketmq`: batch and streaming, reading and writing."""
