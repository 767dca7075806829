"""Settings of the ACL sync: the table `[acl]`."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from replicator.settings.names import Patterns

__all__ = ["AclSettings"]


class AclSettings(BaseModel):
    """Which accounts are synced, and what may be done to them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    accounts: Patterns = Field([".*"], description="accounts to sync: names or regular expressions")
    exclude_accounts: Patterns = Field([], description="accounts not to sync; wins over `acl.accounts`")
    admins: bool = Field(False, description="sync admin accounts and Super users too")
    adopt: bool = Field(
        False, description="change accounts that existed at the target before and differ from the source's"
    )
    source_dir: Path | None = Field(
        None,
        description="directory with the source's plain_acl.yml and acl/, to read instead of asking its brokers",
    )
