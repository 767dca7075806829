"""Where a copied message came from, as properties that travel with it.

`__RPL_ORIGIN` is the id of the cluster that the message was born in; it is set once and kept over all
hops, so that no message returns to its origin. `__RPL_SOURCE` is `cluster/broker/queue/offset/timestamp`
of the message that this one was copied from; recovery and verification stand on it. The timestamp is
when the source stored it: a topic deleted and made anew has the same offsets, but not at the same time.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from replicator.protocol import properties

__all__ = ["ORIGIN", "PREFIX", "SOURCE", "Provenance", "Stamp", "read"]

PREFIX: Final = b"__RPL_"
ORIGIN: Final = PREFIX + b"ORIGIN"
SOURCE: Final = PREFIX + b"SOURCE"


class Provenance(NamedTuple):
    """What a copied message says of itself; `stored` is in milliseconds since the epoch."""

    origin: str
    cluster: str
    broker: str
    queue_id: int
    offset: int
    stored: int


def read(raw: bytes) -> Provenance | None:
    """The provenance in a message's properties; None when it is no copy, or not one of ours."""
    if PREFIX not in raw:
        return None
    origin = properties.find(raw, ORIGIN)
    source = properties.find(raw, SOURCE)
    if origin is None or source is None:
        return None
    try:
        cluster, _, place = source.decode().partition("/")
        broker, queue_id, offset, stored = place.rsplit("/", 3)
        return Provenance(origin.decode(), cluster, broker, int(queue_id), int(offset), int(stored))
    except ValueError:
        return None


class Stamp:
    """Puts provenance on the messages of one source queue, in front of their own properties."""

    __slots__ = ("_cut", "_first", "_source", "_tail")

    def __init__(self, cluster: str, broker: str, queue_id: int) -> None:
        self._source = SOURCE + f"\x01{cluster}/{broker}/{queue_id}/".encode()
        self._first = ORIGIN + f"\x01{cluster}\x02".encode() + self._source
        self._learn(b"")

    def put(self, raw: bytes, offset: int, stored: int) -> bytes:
        """`raw` without what brokers appended, behind our provenance; ends in 0x02.

        Args:
            raw: the properties as the source broker stored them; without provenance.
            offset: the message's queue offset at the source.
            stored: its store timestamp there, in milliseconds since the epoch.
        """
        if raw.endswith(self._tail):
            raw = raw[: self._cut]
        stamped = b"%b%d/%d\x02%b" % (self._first, offset, stored, raw)
        if properties.find_broker_made(stamped) is not None:
            self._learn(properties.broker_made_tail(raw))
            return properties.strip(stamped)
        return stamped if stamped[-1] == 2 else stamped + b"\x02"

    def _learn(self, tail: bytes) -> None:
        """What the broker appended to one message it appends to the next ones too: that is cut off cheaply."""
        self._tail = tail
        self._cut = 1 - len(tail) if tail else None  # the 0x02 in front stays

    def renew(self, raw: bytes, offset: int, stored: int) -> bytes:
        """As `put`, for a message that may be a copy itself: its origin stays."""
        origin = properties.find(raw, ORIGIN)
        if origin is None:
            return self.put(raw, offset, stored)
        kept = b"".join(part + b"\x02" for part in raw.split(b"\x02") if part and not part.startswith(PREFIX))
        return properties.strip(b"%b\x01%b\x02%b%d/%d\x02%b" % (ORIGIN, origin, self._source, offset, stored, kept))
