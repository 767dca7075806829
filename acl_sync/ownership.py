"""Which accounts at the target are ours: names only; the caller keeps them between runs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from replicator.errors import StartupError

__all__ = ["Origin", "Ownership"]


class Origin(StrEnum):
    """How an account became ours. What was adopted is updated, but never deleted."""

    CREATED = "created"
    ADOPTED = "adopted"


class Ownership:
    """By target broker: our accounts, and the addresses that we put on its global white list."""

    def __init__(self, content: Mapping[str, Any] | None = None) -> None:
        """Takes up what `as_json` gave.

        Raises:
            StartupError: `content` is something else.
        """
        self._accounts: dict[str, dict[str, Origin]] = {}
        self._white: dict[str, set[str]] = {}
        try:
            for broker, held in (content or {}).items():
                self._accounts[broker] = {str(name): Origin(origin) for name, origin in held["accounts"].items()}
                self._white[broker] = {str(address) for address in held["white"]}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise StartupError(
                "what is known of our accounts at the target cannot be read",
                hint="restore the file; without it nothing is deleted, and equal accounts are adopted",
            ) from None

    def as_json(self) -> dict[str, Any]:
        """Names and addresses; no secrets."""
        brokers = sorted(self._accounts.keys() | self._white.keys())
        return {
            broker: {
                "accounts": dict(sorted(self._accounts.get(broker, {}).items())),
                "white": sorted(self._white.get(broker, ())),
            }
            for broker in brokers
        }

    def accounts(self, broker: str) -> Mapping[str, Origin]:
        return self._accounts.get(broker, {})

    def white(self, broker: str) -> frozenset[str]:
        return frozenset(self._white.get(broker, ()))

    def own(self, broker: str, account: str, origin: Origin) -> None:
        """An account is ours from now on; what was created by us stays so."""
        self._accounts.setdefault(broker, {}).setdefault(account, origin)

    def disown(self, broker: str, account: str) -> None:
        self._accounts.get(broker, {}).pop(account, None)

    def own_white(self, broker: str, addresses: frozenset[str]) -> None:
        """Exactly these addresses are ours."""
        self._white[broker] = set(addresses)
