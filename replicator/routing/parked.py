"""Messages that wait in a source's brokers, and are parked at the target meanwhile: what they say of themselves.

A broker keeps a message of a delay level, or of its timer (5.x), under a system topic: `REAL_TOPIC` and `REAL_QID`
say where it goes once it is due. It is copied there as any message is, into a system topic of the target.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from replicator.client.system_topics import INTERNAL_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC
from replicator.protocol import properties
from replicator.protocol.message import StoredMessage
from replicator.routing import provenance
from replicator.routing.body_compression import plain
from replicator.routing.faults import TransformRefused
from replicator.routing.queue_map import Queue
from replicator.routing.single_send import HELD_BACK

__all__ = [
    "BROKER_CHANGED",
    "KINDS",
    "RECALL",
    "RELEASED",
    "UNIQUE",
    "Parked",
    "Place",
    "ReleasedMessages",
    "as_new",
    "as_released",
    "bare_recall",
    "due_of",
    "fingerprint",
    "is_recall",
    "parked_topics",
    "parse_delays",
    "read_parked",
    "real_queue",
    "real_topic",
    "recalled",
    "released",
    "renewed_waiting",
    "transformed",
    "with_due",
]

_OF_TIMER: Final = "timer"
#: What waits in each system topic of a source.
KINDS: Final = {SCHEDULE_TOPIC: "delay", TIMER_TOPIC: _OF_TIMER}

#: Of a message that was released at the target: which parked message it is.
RELEASED: Final = provenance.PREFIX + b"RELEASED"

#: The id that a client gives each message that it sends.
UNIQUE: Final = b"UNIQ_KEY"

_REAL_TOPIC: Final = b"REAL_TOPIC"
_REAL_QUEUE: Final = b"REAL_QID"
_TIMER_DUE: Final = b"TIMER_OUT_MS"
#: Only what takes a message of the timer back has it.
RECALL: Final = b"TIMER_DEL_UNIQKEY"

#: Brokers set or change them while a message waits, or when they deliver it.
BROKER_CHANGED: Final = (
    _REAL_TOPIC,
    _REAL_QUEUE,
    b"TIMER_ENQUEUE_MS",
    b"TIMER_DEQUEUE_MS",
    b"TIMER_ROLL_TIMES",
    b"WAIT",
    b"PGROUP",
)
#: They differ between the parked message and the delivered one, or its copy.
_NAMES: Final = (
    *BROKER_CHANGED,
    properties.SEAL,
    provenance.ORIGIN,
    provenance.SOURCE,
    provenance.VIA,
    provenance.RETRIES,
    provenance.DUE,
    provenance.RETAGGED,
    RELEASED,
    *properties.BROKER_MADE,
)
_DELAYING: Final = (
    _REAL_TOPIC,
    _REAL_QUEUE,
    _TIMER_DUE,
    b"DELAY",
    b"TIMER_DELIVER_MS",
    b"TIMER_DELAY_SEC",
    b"TIMER_DELAY_MS",
    b"TIMER_ENQUEUE_MS",
    b"TIMER_DEQUEUE_MS",
    b"TIMER_ROLL_TIMES",
    b"TRAN_MSG",
)
#: What only a parked message has, or what it was released from before, by another route.
_PARKED: Final = (
    provenance.SOURCE,
    provenance.DUE,
    provenance.RETAGGED,
    RELEASED,
    properties.SEAL,
    *properties.BROKER_MADE,
)
_WAITED: Final = (b"DELAY", _TIMER_DUE)
#: By these a waiting message is known once it is delivered, or recalled: transforms may not change them.
_KNOWN_BY: Final = (UNIQUE, *_WAITED)
_CHANGING: Final = tuple(name + b"\x01" for name in _NAMES)
#: A copy for a retry topic, which is a single send, is without more (`without_delay`).
_CHANGING_OF_RETRIES: Final = tuple(name + b"\x01" for name in (*_NAMES, _TIMER_DUE, *HELD_BACK))

_UNITS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
#: What a route's transforms make of a message of one queue; None: they leave it out. Raises TransformRefused.
QueueTransform = Callable[[StoredMessage], StoredMessage | None]

_LEGAL = re.compile(r"[a-zA-Z0-9_-]+")
#: Characters of an id that a topic's name has room for.
_ROOM: Final = 40


def parked_topics(group: str, connector: str) -> dict[str, str]:
    """Per system topic of a source where a connector of a worker group parks its messages: topics of its own."""
    whose = f"{_word(group)}_{_word(connector)}"
    return {topic: f"{INTERNAL_PREFIX}pending_{kind}_{whose}" for topic, kind in KINDS.items()}


def _word(name: str) -> str:
    if len(name) <= _ROOM and _LEGAL.fullmatch(name):
        return name
    legal = re.sub(r"[^a-zA-Z0-9-]", "-", name)[: _ROOM - 9]
    return f"{legal}-{zlib.crc32(name.encode()):08x}"


def real_topic(raw: bytes) -> str:
    """The topic that a waiting message with the properties `raw` goes to; empty if it does not say."""
    return (properties.find(raw, _REAL_TOPIC) or b"").decode(errors="replace")


def real_queue(raw: bytes) -> int | None:
    """The queue that a waiting message with the properties `raw` goes to; None if it does not say."""
    return properties.number(properties.find(raw, _REAL_QUEUE) or b"")


def is_recall(raw: bytes) -> bool:
    """Whether a record of the timer takes back a message instead of being one."""
    return properties.find(raw, RECALL) is not None


def recalled(raw: bytes) -> bytes | None:
    """By what a record of the timer takes back a message, as in `Parked.recalls`; None if it takes back none."""
    return properties.find(raw, RECALL)


def bare_recall(message: StoredMessage) -> StoredMessage:
    """A record of the timer that takes back a message, with nothing else in it that a producer may have written."""
    raw = message.properties
    kept = [
        b"%b\x01%b\x02" % (name, properties.find(raw, name) or b"") for name in (RECALL, _REAL_TOPIC, _REAL_QUEUE)
    ]
    return msgspec.structs.replace(message.with_content(b"0", sys_flag=0), properties=b"".join(kept))


def due_of(message: StoredMessage, level: int | None, delays: Sequence[int]) -> int | None:
    """When a message that waits at its broker is due, in milliseconds since the epoch; None if nobody knows.

    Args:
        level: its delay level, from 1 on, which decides: a retry still has the due time of what the timer has
            delivered. None: it is one of the timer, and says itself when it is due.
        delays: milliseconds of each delay level.
    """
    if level is not None:
        return message.store_timestamp + delays[level - 1] if level <= len(delays) else None
    return properties.number(properties.find(message.properties, _TIMER_DUE) or b"")


def parse_delays(text: str) -> list[int]:
    """The milliseconds of each delay level, as `messageDelayLevel` of a broker says them: `1s 5s 1m 2h 1d`."""
    delays = [(properties.number(each[:-1]), _UNITS.get(each[-1])) for each in text.split()]
    return [count * unit for count, unit in delays if count is not None and unit is not None]


def with_due(message: StoredMessage, due: int, *, retagged: bool = False) -> StoredMessage:
    """`message` as it is parked; `retagged`: the source has it with another tag."""
    mark = b"%b\x011\x02" % provenance.RETAGGED if retagged else b""
    raw = b"%b\x01%d\x02%b%b" % (provenance.DUE, due, mark, message.properties)
    return msgspec.structs.replace(message, properties=raw)


def transformed(waiting: StoredMessage, transform: QueueTransform) -> StoredMessage | None:
    """What a route's transforms make of a waiting message, which has no place in its topic yet.

    Raises:
        TransformRefused: as of them; or nobody could tell, once it is delivered, that it is the same message.
    """
    changed = transform(msgspec.structs.replace(waiting, queue_offset=-1, store_timestamp=-1))
    if changed is None:
        return None
    for name in _KNOWN_BY:
        if properties.find(changed.properties, name) != properties.find(waiting.properties, name):
            raise TransformRefused(
                f"property {name.decode()} is changed, by which a message that waits is known once it is delivered"
            )
    place = {"queue_offset": waiting.queue_offset, "store_timestamp": waiting.store_timestamp}
    return msgspec.structs.replace(changed, **place)


def renewed_waiting(messages: Sequence[StoredMessage]) -> list[StoredMessage]:
    """Messages that wait at their broker; those retries that are not copies without what a copy says of itself."""
    return [
        provenance.renewed_retries([message])[0]
        if real_topic(message.properties).startswith(RETRY_PREFIX)
        else message
        for message in messages
    ]


def fingerprint(message: StoredMessage, *, retry: bool = False) -> bytes | None:
    """The same for a waiting message and for what its broker delivers, different for any two that a client sent.

    The body as its producer wrote it, and all properties that brokers leave alone: among them UNIQ_KEY, and DELAY
    or TIMER_OUT_MS.

    Args:
        retry: the message goes to a group's retry topic, where a copy is without its delay.

    Returns:
        None for a message that has never waited.
    """
    raw = message.properties
    if not _has_waited(raw, retry=retry):
        return None
    left_out = _CHANGING_OF_RETRIES if retry else _CHANGING
    own = sorted(part for part in raw.split(b"\x02") if part and not part.startswith(left_out))
    what = b"\x02".join([b"%d" % message.reconsume_times, plain(message).content, *own])
    return blake2b(what, digest_size=16).digest()


def _has_waited(raw: bytes, *, retry: bool) -> bool:
    return retry or any(properties.find(raw, name) is not None for name in _WAITED)


def released(raw: bytes) -> str | None:
    """Which parked message a message at the target was released from; None if it was not released."""
    if RELEASED not in raw:
        return None
    found = properties.find(raw, RELEASED)
    return None if found is None else found.decode(errors="replace")


class Place(NamedTuple):
    """Where a message is at the target."""

    topic: str
    queue: Queue
    offset: int


def as_released(raw: bytes, parked: str, *, seal: bytes = b"") -> bytes:
    """The properties `raw` of a parked message as it is sent when it is due, in a batch; they end in 0x02.

    Args:
        parked: its id.
        seal: the property that proves who has released it.
    """
    own = properties.without(raw, _PARKED)
    return b"%b\x02%b\x01%b\x02%b" % (own.strip(b"\x02"), RELEASED, parked.encode(), seal)


def as_new(raw: bytes, parked: str, *, seal: bytes = b"") -> bytes:
    """As `as_released`, for a single send: with none of those by which its broker would delay it, or drop it."""
    return properties.without(as_released(raw, parked, seal=seal), _DELAYING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """A message that was parked at the target.

    `id` is what a released copy of it names: cluster, kind, broker, queue, offset and store time at the source.
    `queue` of `topic` is where it goes at the source, `due` when (ms since the epoch). `unique` is its UNIQ_KEY,
    `rolled` how often the timer has put it back. `parked_at` is when the target stored it (ms), at `place`.
    """

    id: str
    kind: str
    topic: str
    queue: Queue
    due: int
    unique: bytes
    fingerprint: bytes
    rolled: int
    parked_at: int
    place: Place

    @property
    def recalls(self) -> frozenset[bytes]:
        """What a record of the timer has that takes it back: its UNIQ_KEY, and from 5.3.2 on its topic in front."""
        if self.kind != _OF_TIMER or not self.unique:
            return frozenset()
        return frozenset((self.unique, b"%b+%b" % (self.topic.encode(), self.unique)))

    @property
    def put_back(self) -> bool:
        """Whether the timer has put it back: an earlier record of it was parked, too, and may be gone by now."""
        return self.kind == _OF_TIMER and self.rolled > 0


class ReleasedMessages:
    """What was released at the target, by source topic: the source may deliver it, too, once it is back.

    Only messages with a UNIQ_KEY, as official clients send them: others may be alike and yet not the same.
    """

    def __init__(self) -> None:
        self._by_topic: dict[str, set[bytes]] = {}

    def add(self, parked: Parked) -> None:
        """Adds a message that was released."""
        if parked.unique:
            self.know(parked.topic, [parked.fingerprint])

    def know(self, topic: str, fingerprints: Iterable[bytes]) -> None:
        """Adds messages of a source topic that were released."""
        self._by_topic.setdefault(topic, set()).update(fingerprints)

    def of(self, topic: str) -> Collection[bytes]:
        """The fingerprints of those of a source topic."""
        return self._by_topic.get(topic, ())

    def others(
        self, topic: str, messages: Sequence[StoredMessage], transform: QueueTransform | None = None
    ) -> Sequence[StoredMessage]:
        """Those of the `messages` of a source topic that were not released.

        Args:
            transform: what is parked has gone through it.
        """
        known = self._by_topic.get(topic)
        if not known:
            return messages
        retry = topic.startswith(RETRY_PREFIX)
        return [each for each in messages if _fingerprint_of_copy(each, transform, retry=retry) not in known]


def _fingerprint_of_copy(message: StoredMessage, transform: QueueTransform | None, *, retry: bool) -> bytes | None:
    """That of what is copied of a message; None for one that is not copied, or has never waited."""
    if transform is not None and _has_waited(message.properties, retry=retry):
        try:
            changed = transform(message)
        except TransformRefused:
            return None  # as when it waited: it was not parked
        if changed is None:
            return None
        message = changed
    return fingerprint(message, retry=retry)


def read_parked(message: StoredMessage, kind: str, place: Place) -> Parked | None:
    """What a message of a parked topic says; None for one that is not a waiting message."""
    raw = message.properties
    source, due = provenance.read(raw), properties.number(properties.find(raw, provenance.DUE) or b"")
    queue_id, topic = real_queue(raw), real_topic(raw)
    print_ = fingerprint(message, retry=topic.startswith(RETRY_PREFIX))
    if source is None or print_ is None or is_recall(raw):
        return None
    if not topic or queue_id is None or due is None:
        return None
    return Parked(
        id=f"{source.cluster}/{kind}/{source.broker}/{source.queue_id}/{source.offset}/{source.stored}",
        kind=kind,
        topic=topic,
        queue=Queue(source.broker, queue_id),
        due=due,
        unique=properties.find(raw, UNIQUE) or b"",
        fingerprint=print_,
        rolled=properties.number(properties.find(raw, b"TIMER_ROLL_TIMES") or b"") or 0,
        parked_at=message.store_timestamp,
        place=place,
    )
