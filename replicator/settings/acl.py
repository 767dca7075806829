"""Settings of the ACL sync: the table `[acl]`."""

from __future__ import annotations

from pydantic import Field, field_validator

from replicator.settings.names import Patterns
from replicator.settings.table import FilePath, Table

__all__ = ["AclSettings"]


class AclSettings(Table):
    """Which accounts are synced, and what may be done to them."""

    accounts: Patterns = Field([".*"], description="accounts to sync: names or regular expressions")
    exclude_accounts: Patterns = Field([], description="accounts not to sync; wins over `acl.accounts`")
    admins: bool = Field(False, description="sync admin accounts and Super users too")
    adopt: bool = Field(
        False, description="change accounts that existed at the target before and differ from the source's"
    )
    source_dir: FilePath = Field(
        None,
        description="directory with the source's plain_acl.yml and acl/, to read instead of asking its brokers",
    )

    @field_validator("accounts")
    @classmethod
    def _selects_something(cls, value: list[str]) -> list[str]:
        if not value:
            raise ValueError("it selects nothing: leave acl.accounts out to sync all, or acl out of sync for none")
        return value
