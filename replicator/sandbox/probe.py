"""Checks whether a broker or name server answers yet."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping

from replicator.client.endpoint import Endpoint
from replicator.client.security import Credentials, Security
from replicator.errors import ClientError
from replicator.protocol.frame import Frame

__all__ = ["accepts", "ask"]


async def ask(
    address: tuple[str, int],
    code: int,
    *,
    tls: ssl.SSLContext | None,
    credentials: Credentials | None = None,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    seconds: float = 2.0,
) -> Frame | None:
    """The peer's answer of any kind, or None if there was none in time."""
    host, port = address
    endpoint = Endpoint(f"{host}:{port}", Security(credentials, tls))
    try:
        async with asyncio.timeout(seconds):
            return await endpoint.invoke(code, fields or {}, body=(body,), timeout=seconds)
    except (ClientError, TimeoutError):
        return None
    finally:
        await endpoint.close()


async def accepts(address: tuple[str, int], *, seconds: float = 2.0) -> bool:
    """Whether something accepts connections at `address`."""
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(*address)
            writer.transport.abort()
    except (OSError, TimeoutError):
        return False
    return True
