"""What a route syncs beside messages, and by which policies."""

from __future__ import annotations

from dataclasses import dataclass

from replicator.metadata.groups import GroupPolicy, GroupSelector
from replicator.metadata.topics import TopicPolicy
from replicator.routing.options import Identity

__all__ = ["SyncOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncOptions:
    """`selector` says which groups are synced; the rest is as in `TopicPolicy`."""

    identity: Identity
    selector: GroupSelector
    protect: bool = False
    repair: bool = False
    deletes: bool = False

    @property
    def topics(self) -> TopicPolicy:
        return TopicPolicy(self.protect, self.repair, self.deletes)

    @property
    def groups(self) -> GroupPolicy:
        return GroupPolicy(repair=self.repair, deletes=self.deletes)
