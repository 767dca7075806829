"""Where a copied message came from, as properties that travel with it.

`__RPL_ORIGIN` is the id of the cluster that the message was born in; it is set once and kept over all
hops, so that no message returns to its origin. `__RPL_SOURCE` is `cluster/broker/queue/offset/timestamp`
of the message that this one was copied from; recovery and verification stand on it. The timestamp is
when the source stored it: a recreated topic has the same offsets, but at other store times.

From the third hop on, `__RPL_VIA` lists the clusters between origin and source, so that a message that came into a
ring from outside ends its way, too.

A message that waits at its broker, and is parked at the target meanwhile, has `__RPL_DUE`: when it is due, over all
hops, in milliseconds since the epoch by the clock of the broker that it waits at. Where a transform has changed its
tag it has `__RPL_RETAGGED`: it was selected by another one.

In a retry or dead-letter topic `__RPL_RETRIES` is how often the copied message had been tried. What a broker
makes of a copy that its group fails on has all its properties, and another count: it is not a copy, and born there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from replicator.client.system_topics import is_group_topic
from replicator.protocol import properties
from replicator.protocol.message import StoredMessage
from replicator.protocol.uniform_run import UniformRun

__all__ = [
    "DUE",
    "ORIGIN",
    "PREFIX",
    "RETAGGED",
    "RETRIES",
    "SOURCE",
    "VIA",
    "Provenance",
    "Stamp",
    "among",
    "birthplace",
    "came_through",
    "of",
    "read",
    "renewed_retries",
    "retried",
]

PREFIX: Final = b"__RPL_"
ORIGIN: Final = PREFIX + b"ORIGIN"
SOURCE: Final = PREFIX + b"SOURCE"
#: Ids of clusters, each after a slash: ids have none.
VIA: Final = PREFIX + b"VIA"
RETRIES: Final = PREFIX + b"RETRIES"
DUE: Final = PREFIX + b"DUE"
RETAGGED: Final = PREFIX + b"RETAGGED"

#: Of the numbers of a place: what comes after it still fits into a record.
_BITS: Final = 62
_KEPT: Final = (DUE + b"\x01", RETAGGED + b"\x01")
_OF_COPIES: Final = (ORIGIN, SOURCE, VIA, RETRIES, properties.SEAL)


class Provenance(NamedTuple):
    """What a copied message says of itself; `stored` is in milliseconds since the epoch."""

    origin: str
    cluster: str
    broker: str
    queue_id: int
    offset: int
    stored: int


def read(raw: bytes) -> Provenance | None:
    """The provenance in a message's properties; None when it is not a copy, or not one of ours."""
    if PREFIX not in raw:
        return None
    origin = properties.find(raw, ORIGIN)
    source = properties.find(raw, SOURCE)
    if origin is None or source is None:
        return None
    try:
        cluster, _, place = source.decode().partition("/")
        broker, *numbers = place.rsplit("/", 3)
        queue_id, offset, stored = map(int, numbers)
        found = Provenance(origin.decode(), cluster, broker, queue_id, offset, stored)
    except ValueError:
        return None
    return None if (queue_id | offset | stored) >> _BITS else found  # one is negative, or too great


def of(message: StoredMessage, topic: str) -> Provenance | None:
    """The provenance of a message of `topic`; None when it is not a copy."""
    if is_group_topic(topic) and not _is_copied_retry(message):
        return None
    return read(message.properties)


def _is_copied_retry(message: StoredMessage) -> bool:
    return properties.find(message.properties, RETRIES) == b"%d" % message.reconsume_times


def retried(raw: bytes, times: int) -> bytes:
    """The properties `raw` of a copy for a group's topic, with how often its message was tried."""
    return b"%b\x01%d\x02%b" % (RETRIES, times, properties.without(raw, (RETRIES,)))


def renewed_retries(messages: Sequence[StoredMessage]) -> list[StoredMessage]:
    """The messages of a group's topic; those that are not copies themselves without what a copy says of itself."""
    return [
        message
        if PREFIX not in message.properties or _is_copied_retry(message)
        else msgspec.structs.replace(message, properties=properties.without(message.properties, _OF_COPIES))
        for message in messages
    ]


def birthplace(raw: bytes, here: bytes) -> bytes:
    """The id of the cluster that a message was born in, by its properties; `here` unless they say another."""
    return (properties.find(raw, ORIGIN) or here) if PREFIX in raw else here


def came_through(raw: bytes, cluster: bytes) -> bool:
    """Whether a copy with these properties was in `cluster` on its way, after its origin."""
    source, via = properties.find(raw, SOURCE) or b"", properties.find(raw, VIA) or b""
    return source.startswith(cluster + b"/") or cluster in via.split(b"/")


def among(messages: Sequence[StoredMessage]) -> bool:
    """Whether some of `messages` may be copies."""
    if isinstance(messages, UniformRun):
        return messages.mention(PREFIX)
    return PREFIX in b"".join([message.properties for message in messages])


class Stamp:
    """Puts provenance on the messages of one source queue, in front of their own properties."""

    __slots__ = ("_source", "_stripping", "lead")

    def __init__(self, cluster: str, broker: str, queue_id: int) -> None:
        self._source = SOURCE + f"\x01{cluster}/{broker}/{queue_id}/".encode()
        #: The part before the offset in the properties of a message that is not a copy itself.
        self.lead = ORIGIN + f"\x01{cluster}\x02".encode() + self._source
        self._stripping = properties.Stripping()

    def put(self, messages: Sequence[StoredMessage]) -> list[bytes]:
        """The properties of `messages` without those that brokers added, after our provenance; each ends in 0x02.

        Args:
            messages: one or more, as the source broker stored them; none with provenance.
        """
        lead = self.lead
        own, led = self._stripping.of([message.properties for message in messages])
        shape = b"%b%d/%d%b\x02" if led else b"%b%d/%d\x02%b\x02"
        return [
            shape % (lead, message.queue_offset, message.store_timestamp, raw)
            for message, raw in zip(messages, own, strict=True)
        ]

    def renew(self, messages: Sequence[StoredMessage]) -> list[bytes]:
        """As `put`, for messages that may be copies themselves: their origin stays.

        What else is called as ours goes, whoever has written it: such properties say of a message at the target
        what became of it there.
        """
        return [self._renew(message) for message in messages]

    def _renew(self, message: StoredMessage) -> bytes:
        raw = message.properties
        parts = [part for part in raw.split(b"\x02") if part]
        kept = [part for part in parts if part.startswith(_KEPT) or not part.startswith(PREFIX)]
        if len(kept) == len(parts):
            return self.put([message])[0]
        origin, lead = properties.find(raw, ORIGIN), self.lead
        if origin is not None:
            lead = b"%b\x01%b\x02%b%b" % (ORIGIN, origin, _via(raw, origin), self._source)
        (own,) = properties.strip([b"\x02".join(kept)])
        return b"%b%d/%d%b\x02" % (lead, message.queue_offset, message.store_timestamp, own)


def _via(raw: bytes, origin: bytes) -> bytes:
    """The property `VIA` of what is copied from a copy; empty where that came straight from its origin."""
    before = properties.find(raw, VIA) or b""
    last, slash, _ = (properties.find(raw, SOURCE) or b"").partition(b"/")
    if not slash or last == origin:
        return b"%b\x01%b\x02" % (VIA, before) if before else b""
    return b"%b\x01%b/%b\x02" % (VIA, before, last)
