"""What a route's settings mean for its metadata."""

from __future__ import annotations

from replicator.connector.context import ConnectorContext
from replicator.metadata.groups import GroupSelector
from replicator.metadata.options import SyncOptions
from replicator.settings import RouteSettings

__all__ = ["sync_options"]


def sync_options(settings: RouteSettings, context: ConnectorContext) -> SyncOptions:
    """By which topics and groups are made and changed."""
    return SyncOptions(
        identity=context.identity,
        selector=GroupSelector.of(settings.sync_groups, settings.exclude_groups),
        protect=settings.protect_target,
        repair=settings.on_drift == "repair",
        deletes=settings.sync_deletes,
    )
