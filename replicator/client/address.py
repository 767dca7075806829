"""An address as RocketMQ writes it: `host:port`."""

from __future__ import annotations

from replicator.protocol import properties

__all__ = ["split_address"]


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`, also of `[v6]:port`.

    Raises:
        ValueError: no such form, or no such port.
    """
    host, _, port = address.rpartition(":")
    number = properties.number(port)
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare or "[" in bare or "]" in bare or number is None or not 0 < number < 65536:
        raise ValueError(f"{address!r} is not host:port")
    return bare, number
