"""The VIP channel of a broker: sends and admin go to listen port - 2.

It keeps what we send apart from what consumers pull. Where only the listen port can be reached
(firewalls, containers that publish one port) that one is used, and said, until the VIP port answers. Pulls are not
served there: "request type 11 not supported".
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from replicator.client.address import split_address
from replicator.client.connection import Connection
from replicator.client.endpoint import Endpoint
from replicator.client.security import Security
from replicator.errors import Unreachable

__all__ = ["VipChannel", "vip_address"]


def vip_address(address: str) -> str:
    """The VIP address of the broker that listens at `address`.

    Raises:
        Unreachable: the text is not an address: brokers may give name servers anything, as an empty `brokerIP1`.
    """
    try:
        host, port = split_address(address)
    except ValueError as error:
        raise Unreachable(address, str(error)) from None
    return f"[{host}]:{port - 2}" if ":" in host else f"{host}:{port - 2}"


class VipChannel(Endpoint):
    """An endpoint at the VIP port that falls back to the listen port.

    Args:
        listen: the endpoint of the listen port, shared with whoever pulls.
        address: that of the VIP port, as `vip_address` gives it unless it is reached elsewhere.
        on_fallback: called with the reason each time the listen port has to serve instead.
        identify: as in `Endpoint`. A port forwarder without a broker behind it takes connections and drops them:
            nothing is sent before a broker has said which it is.
    """

    def __init__(
        self,
        listen: Endpoint,
        address: str,
        security: Security,
        on_fallback: Callable[[str], None],
        *,
        identify: Callable[[Connection], Awaitable[None]],
        may_go_on: Callable[[], bool] | None = None,
    ) -> None:
        super().__init__(address, security, may_go_on=may_go_on, identify=identify)
        self._listen = listen
        self._on_fallback = on_fallback
        self._fallen_back = False
        self._trial: asyncio.Task[None] | None = None

    @property
    def live(self) -> Connection | None:
        return (self._listen.live if self._fallen_back else None) or super().live

    async def connection(self) -> Connection:
        """A live connection to the VIP port, else to the listen port.

        Raises:
            Unreachable: neither port can be reached.
        """
        if self._fallen_back and (live := self._listen.live) is not None:
            self._try_again()
            return live
        try:
            connection = await super().connection()
        except Unreachable as error:
            return await self._listening(error)
        self._fallen_back = False
        return connection

    async def _listening(self, why: Unreachable) -> Connection:
        """A connection to the listen port; to the VIP port where both were away and are there again."""
        was_away = self._listen.failing
        connection = await self._listen.connection()
        if was_away:
            self._not_before = 0.0
            try:
                connection = await super().connection()
            except Unreachable as error:
                why = error
            else:
                self._fallen_back = False
                return connection
        if not self._fallen_back:
            self._on_fallback(str(why))
        self._fallen_back = True
        return connection

    def drop(self) -> None:
        """As `Endpoint.drop`; while the listen port serves, its connection is the one with what was sent."""
        super().drop()
        if self._fallen_back:
            self._listen.drop()

    def _try_again(self) -> None:
        """Tries the VIP port beside what runs over the listen port, every few seconds."""
        if self._trial is None or self._trial.done():
            self._trial = asyncio.create_task(self._answers(), name=f"try {self.address}")

    async def _answers(self) -> None:
        """Leaves the listen port once the broker answers at the VIP port."""
        with contextlib.suppress(Unreachable):
            await super().connection()  # after its backoff
            self._fallen_back = False

    def abandon(self) -> None:
        if self._trial is not None:
            self._trial.cancel()
        super().abandon()

    async def close(self) -> None:
        trial = self._trial
        await super().close()
        if trial is not None:
            await asyncio.wait([trial])
