"""The name servers of one cluster: any of them answers, so the next is asked when one does not or knows nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from replicator.client.address_server import AddressServer
from replicator.client.endpoint import Endpoint
from replicator.client.refused import refused
from replicator.client.security import Security
from replicator.errors import ClientError, NoTls, ProtocolError, RequestTimeout, StartupError, Unreachable
from replicator.observe.logging import get_logger
from replicator.protocol import fastjson
from replicator.protocol.codes import Response
from replicator.protocol.frame import Frame
from replicator.settings.clusters import is_address_server

__all__ = ["NameServers", "NoBrokers", "NoNameServer", "NotServed", "NothingKnown", "parsed"]

#: Seconds for an answer; with those for a connection (`Endpoint`) it is until another name server is asked.
_TIMEOUT: Final = 5.0
#: Seconds until an address server is asked again, as by RocketMQ's clients; and when no name server answers.
_REFRESH_INTERVAL: Final = 120.0
_REFRESH_IN_NEED: Final = 5.0

#: What a name server says that is not well: it is full, or something in it fails.
_UNWELL: Final = (Response.SYSTEM_ERROR, Response.SYSTEM_BUSY)

log = get_logger(__name__)

T = TypeVar("T")


class NothingKnown(StartupError):
    """A name server knows nothing of what is asked for, as after its own start: brokers register one by one."""


class NoBrokers(NothingKnown):
    """No broker of any cluster is registered: waiting helps, unlike with a wrong cluster name."""


class NoNameServer(NothingKnown):
    """Who answers at `address` does not know the request for a cluster's brokers (106)."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"{address} is a broker, not a name server", hint="name servers listen on port 9876 by default"
        )
        self.address = address


class NotServed(NothingKnown):
    """A name server answers that it cannot, or with what cannot be read: another one may be well."""


#: The worst comes first: one that is told where several are.
_WORST: Final = (NothingKnown, NoBrokers, NoNameServer, NotServed)


def parsed(address: str, answer: Frame) -> Any:
    """The JSON in the answer of the name server at `address`.

    Raises:
        ProtocolError: there is none.
    """
    try:
        return fastjson.parse(answer.body)
    except ProtocolError as error:
        raise ProtocolError(f"name server {address} returned {error.message}") from None


class NameServers:
    """Asks the name servers of a list in turn, beginning with the one that answered last.

    Args:
        addresses: one or more `host:port`, or the URL of an address server, which is asked for them now and then.
        called: what they are, in errors: Proxies answer some of what name servers do.
    """

    def __init__(self, addresses: Sequence[str], security: Security, *, called: str = "name server") -> None:
        self._security = security
        self._called = called
        self._given = list(addresses)
        self._server = AddressServer(addresses[0], security) if is_address_server(addresses[0]) else None
        self._endpoints = [] if self._server else [Endpoint(address, security) for address in addresses]
        self._current = 0
        self._refreshed = self._refresh_at = 0.0
        self._refreshing = asyncio.Lock()

    @property
    def addresses(self) -> list[str]:
        """Where they are; the address server while it has not said that."""
        return [endpoint.address for endpoint in self._endpoints] or self._given

    async def invoke(self, code: int, fields: Mapping[str, str]) -> tuple[str, Frame]:
        """The answer, and the address of the name server that gave it; errors as `read`."""
        return await self.read(code, fields, lambda address, answer: (address, answer))

    async def read(self, code: int, fields: Mapping[str, str], reader: Callable[[str, Frame], T]) -> T:
        """What `reader` makes of the first answer that it finds something in.

        Args:
            reader: is given a name server's address and its answer, whatever the code, unless it says that the
                server is not well; by `NothingKnown` or `ProtocolError` it has the next one asked.

        Raises:
            Unreachable: none of them answered, and the reasons of all are in it; or the address server does not.
            NothingKnown: none of those that answered knows anything, or serves; the reasons of all are in it.
        """
        if self._server is not None:
            await self._ask_address_server(self._server)
        failures: list[ClientError | NothingKnown] = []
        endpoints, first = self._endpoints, self._current
        for endpoint in endpoints[first:] + endpoints[:first]:
            if endpoint not in self._endpoints:  # it has left the list meanwhile, and was closed
                continue
            try:
                answer = await endpoint.invoke(code, fields, timeout=_TIMEOUT)
                self._refuse_unwell(endpoint.address, code, answer)
                read = reader(endpoint.address, answer)
            except (Unreachable, RequestTimeout, NothingKnown) as error:
                failures.append(error)
                continue
            except ProtocolError as error:
                failures.append(NotServed(error.message, hint="find out who answers there"))
                continue
            if endpoints is self._endpoints:
                self._current = endpoints.index(endpoint)
            return read
        if endpoints is not self._endpoints:
            return await self.read(code, fields, reader)
        self._refresh_at = self._refreshed + _REFRESH_IN_NEED
        ignorant = [failure for failure in failures if isinstance(failure, NothingKnown)]
        if ignorant:
            worst = min(ignorant, key=lambda each: _WORST.index(type(each)))
            worst.message = "; ".join(each.message for each in failures)
            raise worst
        reasons = "; ".join(
            failure.reason if isinstance(failure, Unreachable) else failure.message for failure in failures
        )
        kind = NoTls if any(isinstance(failure, NoTls) for failure in failures) else Unreachable
        raise kind(",".join(self.addresses), reasons)

    async def read_each(
        self, code: int, fields: Mapping[str, str], reader: Callable[[str, Frame], T]
    ) -> tuple[dict[str, T], dict[str, str]]:
        """What `reader` makes of the answer of each of them, and why there is none of the others; both by address.

        One that was down a moment ago is not waited for; another one is for as long as `read` waits for it.

        Raises:
            Unreachable: the address server does not say where they are.
        """
        if self._server is not None:
            await self._ask_address_server(self._server)
        found: dict[str, T] = {}
        failures: dict[str, str] = {}

        async def ask(endpoint: Endpoint) -> None:
            try:
                endpoint.refuse_pause()
                answer = await endpoint.invoke(code, fields, timeout=_TIMEOUT)
                self._refuse_unwell(endpoint.address, code, answer)
                found[endpoint.address] = reader(endpoint.address, answer)
            except (ClientError, NothingKnown, ProtocolError) as error:
                failures[endpoint.address] = str(error)

        endpoints = self._endpoints
        await asyncio.gather(*(ask(endpoint) for endpoint in endpoints))
        return {each.address: found[each.address] for each in endpoints if each.address in found}, failures

    async def ask_one(self, address: str, code: int, fields: Mapping[str, str]) -> None:
        """Asks the name server at `address` alone.

        Raises:
            BrokerRefused: it answers with anything but success.
            Unreachable, RequestTimeout: see there; or the name server is not one of them any more.
        """
        for endpoint in self._endpoints:
            if endpoint.address == address:
                await endpoint.ask(code, fields, timeout=_TIMEOUT)
                return
        raise Unreachable(address, "it is not among the name servers any more")

    async def _ask_address_server(self, server: AddressServer) -> None:
        """Asks the address server, when it is time to."""
        async with self._refreshing:
            now = asyncio.get_running_loop().time()
            if self._endpoints and now < self._refresh_at:
                return
            self._refreshed, self._refresh_at = now, now + _REFRESH_INTERVAL
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

    def _refuse_unwell(self, address: str, code: int, answer: Frame) -> None:
        if answer.code in _UNWELL:
            raise NotServed(
                f"{self._called} {refused(address, code, answer)}",
                hint="look into its log; where it asks for accounts, check the account and its rights",
            )
