"""Which groups have consumers at the target: nobody changes under them what they have."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final

from replicator.aio.bounded import bounded
from replicator.aio.clock import now
from replicator.client.cluster import Cluster
from replicator.client.groups import consumers
from replicator.client.unresponsive import UnresponsiveBrokers
from replicator.errors import ClientError, ProtocolError

__all__ = ["GroupConsumers", "TargetConsumers"]

#: Seconds after which a group may have consumers again.
_IDLE: Final = 1.0
#: Groups that are asked about at the same time.
_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class GroupConsumers:
    """Whether one group is `live`: consumed in at any broker of the target.

    `unknown` are the brokers that have not said whether it is, each with why.
    """

    live: bool = False
    unknown: Mapping[str, str] = field(default_factory=dict)

    def unsure(self, brokers: Collection[str]) -> str:
        """Why it is not known whether consumers have what the group has at `brokers`; empty where it is."""
        silent = [f"{broker}: {self.unknown[broker]}" for broker in sorted({*brokers} & self.unknown.keys())]
        return f"whether it has consumers at the target is not known ({'; '.join(silent)})" if silent else ""


class TargetConsumers:
    """Looks for the consumers of groups at all brokers, since one that was restarted knows of none for up to half a
    minute, until its clients send their next heartbeat.
    """

    def __init__(self, target: Cluster) -> None:
        self._target = target
        self._unresponsive = UnresponsiveBrokers({})
        #: Groups without consumers: when each was last seen so, and of those that may be deleted since when.
        self._seen: dict[str, float] = {}
        self._quiet: dict[str, float] = {}

    def begin(self) -> None:
        """A new look: what was seen before does not count, and brokers that have not answered are asked again."""
        self._unresponsive = UnresponsiveBrokers({})
        self._seen = {}

    async def read(self, groups: Iterable[str]) -> dict[str, GroupConsumers]:
        """What the brokers know of these groups now."""
        names = sorted({*groups})
        found = dict(zip(names, await bounded(self._read, names, at_once=_AT_ONCE), strict=True))
        self._seen |= dict.fromkeys((name for name in names if not found[name].live), now())
        return found

    async def read_absences(self, groups: Iterable[str]) -> dict[str, tuple[GroupConsumers, float]]:
        """The same of groups that are about to be deleted, with the seconds for which none had consumers.

        Those that are not among them this time begin again the next.
        """
        found, at = await self.read(groups), now()
        quiet = [name for name, each in found.items() if not (each.live or each.unknown)]
        self._quiet = {name: self._quiet.get(name, at) for name in quiet}
        return {name: (each, at - self._quiet.get(name, at)) for name, each in found.items()}

    async def since_then(self, group: str, broker: str) -> str:
        """Why what `group` has at `broker` must not be changed any more, though nobody consumed at the last look.

        Of a group that was not looked for then nothing is asked: somebody wants it changed whoever consumes in it.
        """
        if now() - self._seen.get(group, inf) <= _IDLE:
            return ""
        found = (await self.read([group]))[group]
        return "it has consumers at the target by now" if found.live else found.unsure([broker])

    async def _read(self, group: str) -> GroupConsumers:
        brokers, unknown = self._target.brokers(), dict[str, str]()

        async def is_consumed(broker: str) -> bool:
            async def ask() -> bool:
                master = self._target.master(broker)
                master.refuse_pause()
                return bool(await consumers(master, group))

            try:
                return await self._unresponsive.ask(broker, ask)
            except (ClientError, ProtocolError) as error:
                unknown[broker] = str(error)
                return False

        live = any(await asyncio.gather(*(is_consumed(broker) for broker in brokers)))
        return GroupConsumers(live, unknown)
