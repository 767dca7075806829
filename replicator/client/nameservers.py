"""The name servers of one cluster: any of them answers, so the next is asked when one does not or knows nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from replicator.client.endpoint import Endpoint
from replicator.client.security import Security
from replicator.errors import ClientError, NoTls, RequestTimeout, StartupError, Unreachable
from replicator.protocol.frame import Frame

__all__ = ["NameServers", "NoBrokers", "NothingKnown"]

#: Seconds until another name server is asked.
_TIMEOUT: Final = 5.0

T = TypeVar("T")


class NothingKnown(StartupError):
    """A name server knows nothing of what is asked for, as after its own start: brokers register one by one."""


class NoBrokers(NothingKnown):
    """No broker of any cluster is registered: waiting helps, unlike with a wrong cluster name."""


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
        return await self.read(code, fields, lambda address, answer: (address, answer))

    async def read(self, code: int, fields: Mapping[str, str], reader: Callable[[str, Frame], T]) -> T:
        """What `reader` makes of the first answer that it finds something in.

        Args:
            reader: is given a name server's address and its answer; by `NothingKnown` it has the next one asked.

        Raises:
            Unreachable: none of them answered; the reasons of all are in it.
            NothingKnown: none of those that answered knows anything; the reasons of all are in it.
        """
        failures: list[ClientError | NothingKnown] = []
        first, count = self._current, len(self._endpoints)
        for index in (*range(first, count), *range(first)):
            endpoint = self._endpoints[index]
            try:
                answer = await endpoint.invoke(code, fields, timeout=_TIMEOUT)
                read = reader(endpoint.address, answer)
            except (Unreachable, RequestTimeout, NothingKnown) as error:
                failures.append(error)
                continue
            self._current = index
            return read
        ignorant = [failure for failure in failures if isinstance(failure, NothingKnown)]
        if ignorant:
            worst = next((each for each in ignorant if not isinstance(each, NoBrokers)), ignorant[0])
            raise type(worst)("; ".join(each.message for each in failures), hint=worst.hint)
        reasons = "; ".join(
            failure.reason if isinstance(failure, Unreachable) else failure.message for failure in failures
        )
        kind = NoTls if any(isinstance(failure, NoTls) for failure in failures) else Unreachable
        raise kind(",".join(self.addresses), reasons)

    async def close(self) -> None:
        for endpoint in self._endpoints:
            await endpoint.close()
