"""The RocketMQ remoting protocol, sans I/O: bytes in, values out, and the reverse.

Nothing in this package opens a socket, reads a clock or logs.
"""
