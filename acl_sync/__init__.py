"""Credentials and permissions, synced from the source to the target: ACL 1.0 and 2.0, in any combination."""

from acl_sync.options import AclOptions
from acl_sync.plan import AclPlan, Action
from acl_sync.syncer import AclSyncer, Applied

__all__ = ["AclOptions", "AclPlan", "AclSyncer", "Action", "Applied"]
