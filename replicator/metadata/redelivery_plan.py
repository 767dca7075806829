"""What of the messages that POP consumers hold a failover puts into retry topics of the target. Pure.

A broker moves a POP group's offset when it delivers a message, and puts what is not acknowledged in time into a
retry topic of the group (`PopReviveService`). A failover does the same at the target with all that is held at the
last sync; then the group goes on there behind all that it was delivered, and gets nothing again that it has
acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import msgspec

from replicator.client.groups import GroupTable
from replicator.client.system_topics import RETRY_PREFIX
from replicator.client.topics import TopicConfig
from replicator.metadata.offsets import GroupQueue, standing
from replicator.protocol import properties
from replicator.protocol.message import StoredMessage
from replicator.routing import provenance
from replicator.routing.parked import UNIQUE, as_new
from replicator.routing.single_send import why_not_singly, without_delay

__all__ = [
    "MARGIN",
    "HeldCopy",
    "InRetryTopic",
    "has_read_on",
    "held_copies",
    "obstacle",
    "obstacle_at",
    "obstacle_of",
    "retried_properties",
    "retry_topic_name",
    "retry_topic_of",
    "unsuitable",
]

#: Messages that are put into a retry topic at most for one queue of a group; each is a send of its own.
_MOST: Final = 10_000
#: Milliseconds by which the clocks of two brokers may differ.
MARGIN: Final = 60_000
#: Characters that the name of a group may have: a retry topic's name without its prefix is taken for one.
_GROUP_LENGTH: Final = 120
#: When a message was first delivered by POP (ms), as a broker says it in what it has tried before.
_FIRST_POP: Final = b"1ST_POP_TIME"


class HeldCopy(NamedTuple):
    """The copy of a message that is held: its offsets at both sides, and when it was delivered last (ms)."""

    source: int
    target: int
    popped: int


@dataclass(slots=True)
class InRetryTopic:
    """What a retry topic of the target has.

    `put` are the ids of messages that a failover put there, each with when the target stored the newest of it;
    `revived` are copies of what the source's broker had put into its own one, by UNIQ_KEY and reconsume count, with
    when that stored the newest (ms).
    """

    put: dict[str, int] = field(default_factory=dict)
    revived: dict[tuple[bytes, int], int] = field(default_factory=dict)

    def has(self, name: str, message: StoredMessage, popped: int) -> bool:
        """Whether a message called `name`, whose copy is `message`, is there since it was delivered at `popped`."""
        put = self.put.get(name)
        if put is not None and put >= popped - MARGIN:
            return True
        unique = properties.find(message.properties, UNIQUE) or b""
        # By one clock: what was revived before this delivery was another one's.
        return bool(unique) and self.revived.get((unique, message.reconsume_times + 1), -1) >= popped


def retry_topic_of(place: GroupQueue) -> str:
    """Where a broker of the target puts what a POP group has not acknowledged of a queue."""
    return retry_topic_name(place.group, place.queue.target_topic)


def retry_topic_name(group: str, topic: str) -> str:
    """Of what a POP group has not acknowledged of a topic, or of a retry topic.

    With `_`, which brokers read that call theirs with `+`, too; they refuse sends to the latter.
    """
    return topic if topic.startswith(RETRY_PREFIX) else f"{RETRY_PREFIX}{group}_{topic}"


def obstacle_at(settings: Mapping[str, str], table: GroupTable, group: str, topic: str, retry_topic: str) -> str:
    """Why the consumers of a group would not find what is in its retry topic at a broker of the target.

    Args:
        settings: those of the broker.
        table: its groups.
        topic: at the target.
    """
    return next(_obstacles_at(settings, table, group, topic, retry_topic), "")


def _obstacles_at(
    settings: Mapping[str, str], table: GroupTable, group: str, topic: str, retry_topic: str
) -> Iterator[str]:
    if "reviveQueueNum" not in settings or table.modes is None:
        yield "the target's broker does not know POP"
        return
    if settings.get("timerWheelEnable") == "false":
        yield "POP is off at the target's broker (timerWheelEnable=false)"
    other = settings.get("enableRetryTopicV2") == "true" or settings.get("popConsumerKVServiceEnable") == "true"
    if other and settings.get("retrieveMessageFromPopRetryTopicV1") == "false":
        yield f"the target's broker does not read {retry_topic} (retrieveMessageFromPopRetryTopicV1=false)"
    if group not in table.groups:
        yield "the target's broker does not have the group"
    if table.groups.get(group, {}).get("consumeMessageOrderly"):
        yield "the group consumes in order at the target, where nobody reads its retry topics"
    if table.modes.get(group, {}).get(topic, {}).get("mode") == "PULL":
        yield "the group does not consume by POP at the target (its request mode is PULL)"
    if len(retry_topic.removeprefix(RETRY_PREFIX)) > _GROUP_LENGTH:
        yield f"{retry_topic} is too long for the name of a retry topic"


def obstacle_of(topic: TopicConfig) -> str:
    """Why what is held of a topic of the target cannot be put into retry topics; single messages may say more."""
    if topic.attributes.get("message.type") == "PRIORITY":
        return "its messages have priorities, by which a single send goes into another queue"
    return ""


def obstacle(place: GroupQueue, past: GroupQueue) -> str:
    """Why a group cannot go on behind what it was delivered, whatever is put into its retry topic.

    Args:
        place: before the first message that it holds.
        past: behind all that it was delivered.
    """
    return next(_obstacles(place, past), "")


def _obstacles(place: GroupQueue, past: GroupQueue) -> Iterator[str]:
    if not place.held:
        yield "not all that its POP consumers hold is known"
    if len(place.held) > _MOST:
        yield f"its POP consumers hold more than {_MOST:,} messages of a queue"
    if place.end is not None or past.end is not None:
        yield "its offset at the target is behind the end of the queue there"
    # Without an offset it would begin before what it holds, and read there what others wrote behind that.
    begin = standing(place).exact if place.target is None else place.target
    there = standing(replace(past, target=begin))
    if there.foreign is not None:
        yield f"it has not read a foreign message at offset {there.foreign} of {place.queue.target}"
    if there.offset != there.exact:
        yield "too much was written at the target since its place there to be read at once"
    if held_copies(place) is None:
        yield "the offset map does not reach back to all that its POP consumers hold"


def has_read_on(place: GroupQueue) -> bool:
    """Whether a group is behind the first message that it holds at the target: it read that there, or a failover
    has put it into its retry topic.
    """
    return place.target is not None and place.target > standing(place).exact


def held_copies(place: GroupQueue) -> list[HeldCopy] | None:
    """Where the copies are of what is held; None if that is not known of one.

    What is not copied yet has none, nor has what a filter leaves out.
    """
    queue, found = place.queue, []
    for each in place.held:
        target = queue.offsets.target_of(each.offset)
        if target is not None:
            found.append(HeldCopy(each.offset, target, each.popped))
        elif each.offset < queue.position and not _is_in_map(place, each.offset):
            return None
    return found


def _is_in_map(place: GroupQueue, offset: int) -> bool:
    first = place.queue.offsets.first
    return first is not None and first.source <= offset


def unsuitable(message: StoredMessage) -> str:
    """Why a message cannot be put into a retry topic as a broker would put it there; empty where it can."""
    if properties.find(message.properties, properties.LIGHT_QUEUES) is not None:
        return "it is in light message queues, and would be put into them once more"
    return why_not_singly(msgspec.structs.replace(message, properties=without_delay(message.properties)))


def retried_properties(message: StoredMessage, name: str, popped: int, *, seal: bytes = b"") -> bytes:
    """The properties of a copy as the broker would put its message into a retry topic, and what it was put from.

    Args:
        name: which message it is.
        popped: when it was delivered (ms).
        seal: the property that proves who has put it there.
    """
    raw = as_new(message.properties, name, seal=seal)
    if not message.reconsume_times or properties.find(raw, _FIRST_POP) is None:
        raw = b"%b\x01%d\x02%b" % (_FIRST_POP, popped, properties.without(raw, (_FIRST_POP,)))
    return provenance.retried(raw, message.reconsume_times + 1)
