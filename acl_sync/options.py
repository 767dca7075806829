"""What is synced and what may be done at the target."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from replicator.errors import ConfigError
from replicator.settings.name_patterns import name_patterns

__all__ = ["AclOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AclOptions:
    """How far the syncer may go; by default it creates and updates, and neither deletes nor touches admins.

    Args:
        include: accounts to sync: names or regular expressions.
        exclude: accounts not to sync; wins over `include`.
        own: the accounts that the program itself runs as, on either side: never touched.
        admins: sync admin accounts (1.0) and Super users (2.0) too.
        deletes: delete at the target what was created by us and is gone from the source.
        adopt: update accounts that were at the target before us.
        source_dir: read ACL 1.0 of the source from its files (`conf/` of a broker) instead of over the wire.
    """

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = ()
    own: frozenset[str] = frozenset()
    admins: bool = False
    deletes: bool = False
    adopt: bool = False
    source_dir: Path | None = None

    def __post_init__(self) -> None:
        for name, patterns in (("include", self.include), ("exclude", self.exclude)):
            try:
                name_patterns(patterns)
            except ValueError as error:
                raise ConfigError(
                    f"{name}: {error}", hint="name an account, or write one that matches its whole name"
                ) from None

    def wants(self, account: str) -> bool:
        """Whether `account` is to be synced at all.

        Raises:
            ConfigError: a regular expression takes too long to match it.
        """
        if account in self.own or name_patterns(self.exclude).match(account):
            return False
        return name_patterns(self.include).match(account)
