"""A SOCKS5 proxy (RFC 1928, with the user and password of RFC 1929) that a cluster is reached through."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from replicator.client.address import split_address

__all__ = ["SocksProxy"]


@dataclass(frozen=True, slots=True)
class SocksProxy:
    """The proxy at `address` (`host:port`), which also looks up host names. The password is never shown."""

    address: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    async def connect(self, host: str, port: int) -> socket.socket:
        """A socket that leads to `host`, for as long as the caller waits.

        Raises:
            OSError: the proxy cannot be reached, or refuses; says that it was the proxy.
        """
        from python_socks import ProxyError, ProxyType  # noqa: PLC0415 - few need it, all would load it
        from python_socks.async_.asyncio import Proxy  # noqa: PLC0415

        own_host, own_port = split_address(self.address)
        proxy = Proxy(ProxyType.SOCKS5, own_host, own_port, self.username, self.password)
        try:
            return await proxy.connect(host, port)
        except ProxyError as error:
            raise OSError(f"the SOCKS proxy {self.address} does not connect it: {error}") from None
        except OSError as error:
            raise OSError(f"the SOCKS proxy {self.address} is not reached: {error.strerror or error}") from None
