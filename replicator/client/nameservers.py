"""The name servers of one cluster: any of them answers, so the next is asked when one does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from replicator.client.endpoint import Endpoint
from replicator.client.security import Security
from replicator.errors import ClientError, RequestTimeout, Unreachable
from replicator.protocol.frame import Frame

__all__ = ["NameServers"]

#: Seconds until another name server is asked.
_TIMEOUT: Final = 5.0


class NameServers:
    """Asks the name servers of a list in turn, beginning with the one that answered last.

    Args:
        addresses: one or more `host:port`.
    """

    def __init__(self, addresses: Sequence[str], security: Security) -> None:
        self._endpoints = [Endpoint(address, security) for address in addresses]
        self._current = 0

    @property
    def addresses(self) -> list[str]:
        return [endpoint.address for endpoint in self._endpoints]

    async def invoke(self, code: int, fields: Mapping[str, str]) -> tuple[str, Frame]:
        """The answer, whatever its code, and the address of the name server that gave it.

        Raises:
            Unreachable: none of them answered; the reasons of all are in it.
        """
        failures: list[ClientError] = []
        first, count = self._current, len(self._endpoints)
        for index in (*range(first, count), *range(first)):
            endpoint = self._endpoints[index]
            try:
                answer = await endpoint.invoke(code, fields, timeout=_TIMEOUT)
            except (Unreachable, RequestTimeout) as error:
                failures.append(error)
                continue
            self._current = index
            return endpoint.address, answer
        reasons = "; ".join(
            failure.reason if isinstance(failure, Unreachable) else failure.message for failure in failures
        )
        raise Unreachable(",".join(self.addresses), reasons)

    async def close(self) -> None:
        for endpoint in self._endpoints:
            await endpoint.close()
