"""Carries out what a plan says: one request an action."""

from __future__ import annotations

from replicator.client.cluster import Cluster
from replicator.client.groups import delete_group, forbid, write_group
from replicator.client.offsets import commit_offset
from replicator.client.request_modes import write_request_mode
from replicator.client.topics import delete_topic, write_topic
from replicator.client.vip import VipChannel
from replicator.metadata.action import (
    Action,
    Commit,
    DropGroup,
    DropOrder,
    DropTopic,
    Forbid,
    SetMode,
    Write,
    WriteGroup,
    WriteOrder,
    WriteTopic,
)

__all__ = ["apply"]


async def apply(target: Cluster, action: Action) -> None:
    """Does what `action` says: at a broker over the VIP channel, or at a name server.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
    """
    match action.write:
        case WriteOrder(topic, queues):
            await target.write_order(action.broker, topic, queues)
        case DropOrder(topic):
            await target.delete_order(action.broker, topic)
        case _:
            await _apply_at(target.writer(action.broker), action.write)


async def _apply_at(broker: VipChannel, write: Write) -> None:
    match write:
        case WriteTopic(config, removed):
            await write_topic(broker, config, removed=removed)
        case DropTopic(name):
            await delete_topic(broker, name)
        case WriteGroup(settings):
            await write_group(broker, settings)
        case DropGroup(name):
            await delete_group(broker, name)
        case Forbid(group, topic, readable):
            await forbid(broker, group, topic, readable=readable)
        case SetMode(group, topic, mode):
            await write_request_mode(broker, group, topic, mode)
        case Commit(group, topic, queue_id, offset):
            await commit_offset(broker, group, topic, queue_id, offset)
