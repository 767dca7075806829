"""The name servers of one cluster: any of them answers, so the next is asked when one does not or knows nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from replicator.client.address_server import AddressServer
from replicator.client.endpoint import Endpoint
from replicator.client.security import Security
from replicator.errors import ClientError, NoTls, RequestTimeout, StartupError, Unreachable
from replicator.observe.logging import get_logger
from replicator.protocol.frame import Frame
from replicator.settings.clusters import is_address_server

__all__ = ["NameServers", "NoBrokers", "NothingKnown"]

#: Seconds until another name server is asked.
_TIMEOUT: Final = 5.0
#: Seconds until an address server is asked again, as by RocketMQ's clients; and when no name server answers.
_LOOK: Final = 120.0
_LOOK_IN_NEED: Final = 5.0

log = get_logger(__name__)

T = TypeVar("T")


class NothingKnown(StartupError):
    """A name server knows nothing of what is asked for, as after its own start: brokers register one by one."""


class NoBrokers(NothingKnown):
    """No broker of any cluster is registered: waiting helps, unlike with a wrong cluster name."""


class NameServers:
    """Asks the name servers of a list in turn, beginning with the one that answered last.

    Args:
        addresses: one or more `host:port`, or the URL of an address server, which is asked for them now and then.
    """

    def __init__(self, addresses: Sequence[str], security: Security) -> None:
        self._security = security
        self._given = list(addresses)
        self._server = AddressServer(addresses[0], security) if is_address_server(addresses[0]) else None
        self._endpoints = [] if self._server else [Endpoint(address, security) for address in addresses]
        self._current = 0
        self._looked = self._look_at = 0.0
        self._looking = asyncio.Lock()

    @property
    def addresses(self) -> list[str]:
        """Where they are; the address server while it has not said that."""
        return [endpoint.address for endpoint in self._endpoints] or self._given

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
            Unreachable: none of them answered, and the reasons of all are in it; or the address server does not.
            NothingKnown: none of those that answered knows anything; the reasons of all are in it.
        """
        if self._server is not None:
            await self._look_up(self._server)
        failures: list[ClientError | NothingKnown] = []
        endpoints, first = self._endpoints, self._current
        for endpoint in endpoints[first:] + endpoints[:first]:
            try:
                answer = await endpoint.invoke(code, fields, timeout=_TIMEOUT)
                read = reader(endpoint.address, answer)
            except (Unreachable, RequestTimeout, NothingKnown) as error:
                failures.append(error)
                continue
            if endpoints is self._endpoints:
                self._current = endpoints.index(endpoint)
            return read
        self._look_at = self._looked + _LOOK_IN_NEED
        ignorant = [failure for failure in failures if isinstance(failure, NothingKnown)]
        if ignorant:
            worst = next((each for each in ignorant if not isinstance(each, NoBrokers)), ignorant[0])
            raise type(worst)("; ".join(each.message for each in failures), hint=worst.hint)
        reasons = "; ".join(
            failure.reason if isinstance(failure, Unreachable) else failure.message for failure in failures
        )
        kind = NoTls if any(isinstance(failure, NoTls) for failure in failures) else Unreachable
        raise kind(",".join(self.addresses), reasons)

    async def _look_up(self, server: AddressServer) -> None:
        """Asks the address server, when it is time to."""
        async with self._looking:
            now = asyncio.get_running_loop().time()
            if self._endpoints and now < self._look_at:
                return
            self._looked, self._look_at = now, now + _LOOK
            try:
                addresses = await server.read()
            except Unreachable as error:
                if not self._endpoints:
                    raise
                log.warning("the name servers known so far stay in use", reason=error.message)
                return
            await self._use(addresses)

    async def _use(self, addresses: Sequence[str]) -> None:
        known = {endpoint.address: endpoint for endpoint in self._endpoints}
        if list(known) == list(addresses):
            return
        if known:
            log.info("the address server names other name servers", before=list(known), now=list(addresses))
        self._endpoints = [
            known.pop(each) if each in known else Endpoint(each, self._security) for each in addresses
        ]
        self._current = 0
        for endpoint in known.values():
            await endpoint.close()

    async def close(self) -> None:
        for endpoint in self._endpoints:
            await endpoint.close()
