"""Which accounts at the target are ours: names only; the caller keeps them between runs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from acl_sync.model import Account, outline
from replicator.errors import StartupError

__all__ = ["Origin", "Ownership"]


class Origin(StrEnum):
    """How an account became ours. What was adopted is updated, but never deleted."""

    CREATED = "created"
    ADOPTED = "adopted"


#: Accounts that were deleted at a broker and are remembered, the last ones.
_REMEMBERED: Final = 1000


class Ownership:
    """By target broker: our accounts, and the addresses that we put on its global white list.

    What we have deleted is remembered: a broker that comes back with an older store has it again.
    """

    def __init__(self, content: Mapping[str, Any] | None = None) -> None:
        """Takes up what `as_json` gave.

        Raises:
            StartupError: `content` is something else.
        """
        #: Another number after each change.
        self.revision = 0
        self._accounts: dict[str, dict[str, Origin]] = {}
        self._white: dict[str, set[str]] = {}
        self._deleted: dict[str, dict[str, str]] = {}
        try:
            for broker, held in (content or {}).items():
                self._accounts[broker] = {str(name): Origin(origin) for name, origin in held["accounts"].items()}
                self._white[broker] = {str(address) for address in held["white"]}
                deleted = held.get("deleted", {})
                self._deleted[broker] = {str(name): str(outlined) for name, outlined in deleted.items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise StartupError(
                "what is known of our accounts at the target cannot be read",
                hint="restore the file; without it nothing is deleted, and equal accounts are adopted",
            ) from None

    def as_json(self) -> dict[str, Any]:
        """Names, addresses and outlines; no secrets."""
        brokers = sorted(self._accounts.keys() | self._white.keys() | self._deleted.keys())
        return {
            broker: {
                "accounts": dict(sorted(self._accounts.get(broker, {}).items())),
                "white": sorted(self._white.get(broker, ())),
                **({"deleted": deleted} if (deleted := self._deleted.get(broker)) else {}),
            }
            for broker in brokers
        }

    def accounts(self, broker: str) -> Mapping[str, Origin]:
        return self._accounts.get(broker, {})

    def white(self, broker: str) -> frozenset[str]:
        return frozenset(self._white.get(broker, ()))

    def own(self, broker: str, account: str, origin: Origin) -> None:
        """An account is ours from now on; what was created by us stays so."""
        held = self._accounts.setdefault(broker, {})
        was_deleted = self._deleted.get(broker, {}).pop(account, None) is not None
        self.revision += was_deleted or account not in held
        held.setdefault(account, origin)

    def disown(self, broker: str, account: str) -> None:
        self.revision += self._accounts.get(broker, {}).pop(account, None) is not None

    def deleted(self, broker: str, account: Account) -> None:
        """`account`, which we had created, is no more."""
        self.disown(broker, account.name)
        remembered = self._deleted.setdefault(broker, {})
        self.revision += remembered.pop(account.name, None) != outline(account)
        remembered[account.name] = outline(account)
        while len(remembered) > _REMEMBERED:
            del remembered[next(iter(remembered))]

    def returned(self, broker: str, accounts: Mapping[str, Account]) -> dict[str, bool]:
        """Those of `accounts` that we have deleted and that are there again, each with whether it is as it was."""
        remembered = self._deleted.get(broker, {})
        return {name: remembered[name] == outline(accounts[name]) for name in remembered.keys() & accounts.keys()}

    def own_white(self, broker: str, addresses: frozenset[str]) -> None:
        """Exactly these addresses are ours."""
        self.revision += self.white(broker) != addresses
        self._white[broker] = set(addresses)
