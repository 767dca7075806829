"""Accounts that change at the source while faults come, and what both sides let them do in the end."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from types import TracebackType
from typing import Final

from acl_sync.model import PUB, SUB, Account
from replicator.errors import ReplicatorError
from replicator.sandbox import Cluster
from tests.soak.history import History
from tests.support.accounts import account, topic
from tests.support.acl_scene import Side

__all__ = ["ACCOUNTS", "Accounts", "rights"]

#: The stem of their names.
ACCOUNTS: Final = "soak-account"
_PROBES: Final = ("probe-one", "probe-two")
#: What an account may be: with one right on a topic, the other or both, or deleted.
_RIGHTS: Final[Sequence[tuple[str, ...] | None]] = ((SUB,), (PUB,), (PUB, SUB), None)


def rights(chance: float) -> tuple[str, ...] | None:
    """What an account may do from then on; None: it is deleted."""
    return _RIGHTS[int(chance * len(_RIGHTS))]


class Accounts:
    """One account for each number, with rights on topics that are not copied; `history` has what becomes of it."""

    def __init__(self, source: Cluster, target: Cluster, history: History) -> None:
        self._history = history
        self._source = Side(source)
        self._target = Side(target)
        self._wanted: dict[int, Account | None] = {}

    async def __aenter__(self) -> Accounts:
        for side in (self._source, self._target):
            await side.create(*_PROBES)
        for number in range(2):
            await self.change(number, 0.3)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._source.client.close()
        await self._target.client.close()

    async def change(self, number: int, chance: float) -> None:
        """Gives, takes or deletes; a broker that is away learns of it in `finish`."""
        given = rights(chance)
        probe = _PROBES[int(chance * 1000) % len(_PROBES)]
        self._wanted[number] = None if given is None else _named(number, probe, given)
        with contextlib.suppress(ReplicatorError, OSError):  # the history has it
            await self._put(number)

    async def finish(self) -> None:
        """All brokers of the source have what was wanted last."""
        for number in self._wanted:
            await self._put(number)

    async def _put(self, number: int) -> None:
        wanted = self._wanted[number]
        rule = None if wanted is None else wanted.rules[0]
        told = {
            "number": number,
            "topic": "" if rule is None else rule.name,
            "rights": None if rule is None else sorted(rule.actions),
        }
        self._history.add("account", **told, step="asked")
        try:
            if wanted is None:
                await self._source.drop(f"{ACCOUNTS}-{number}")
            else:
                await self._source.put(wanted)
        except (ReplicatorError, OSError) as error:
            self._history.add("account", **told, step="failed", reason=str(error))
            raise
        self._history.add("account", **told, step="acknowledged")

    async def alike(self) -> bool:
        """Whether each account may do at the target what it may do at the source, on every broker."""
        for number, wanted in self._wanted.items():
            who = wanted or _named(number, _PROBES[0], ())
            for probe in _PROBES:
                there, here = [set(await side.takes(who, probe)) for side in (self._source, self._target)]
                if there != here or len(there) != 1:
                    return False
        return True


def _named(number: int, probe: str, rights: tuple[str, ...]) -> Account:
    return account(f"{ACCOUNTS}-{number}", topic(probe, *rights), secret=f"secret-of-{number}")
