"""What a copy must keep of a message, in a form that is the same on both sides, and digests of runs of them.

`verify` does this to every message, so it works on as many as an answer to a pull holds.
"""

from __future__ import annotations

import hashlib
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from replicator.protocol.batch import KEPT_SYS_FLAGS
from replicator.protocol.message import StoredMessage
from replicator.protocol.properties import BROKER_MADE, Stripping
from replicator.routing import provenance
from replicator.routing.provenance import ORIGIN, PREFIX, SOURCE, Provenance, birthplace
from replicator.routing.queue_map import Queue

__all__ = ["RUN", "Copies", "CopyForms", "Runs", "SourceForms", "own"]

#: Source offsets that share a digest.
RUN: Final = 4096

_NOT_OWN: Final = (PREFIX, *(name + b"\x01" for name in BROKER_MADE))
_ORIGIN: Final = ORIGIN + b"\x01"
_pack = struct.Struct(">iIiH").pack


def own(raw: bytes) -> list[bytes]:
    """Properties without ours and the brokers', sorted: a broker may change the order of a message sent singly."""
    return sorted(part for part in raw.split(b"\x02") if part and not part.startswith(_NOT_OWN))


class _Own:
    """`own` of many, each in one piece."""

    def __init__(self) -> None:
        self._stripping = Stripping()

    def of(self, raws: Sequence[bytes]) -> list[bytes]:
        cut, _ = self._stripping.of(raws)
        if PREFIX in b"".join(cut):
            return [b"\x02".join(own(raw)) for raw in raws]
        return [b"\x02".join(sorted(filter(None, each.split(b"\x02")))) for each in cut]


def _form(message: StoredMessage, origin: bytes, place: bytes, rest: bytes) -> bytes:
    """Args: source offset and store time as `place`; the message's own properties as `rest`."""
    head = _pack(message.flag, message.sys_flag & KEPT_SYS_FLAGS, message.reconsume_times, len(rest))
    return b"\x02".join((origin, place, head, message.body, rest))  # the body's length stands before it


class SourceForms:
    """Of the messages of a source queue; those that are no copies themselves were born in `cluster`."""

    def __init__(self, cluster: str) -> None:
        self._here = cluster.encode()
        self._own = _Own()

    def of(self, messages: Sequence[StoredMessage]) -> list[bytes]:
        """One for each."""
        owns = self._own.of([message.properties for message in messages])
        return [
            _form(
                message,
                birthplace(message.properties, self._here),
                b"%d/%d" % (message.queue_offset, message.store_timestamp),
                rest,
            )
            for message, rest in zip(messages, owns, strict=True)
        ]


class Copies(NamedTuple):
    """What are copies from one source queue, with their source offsets and forms, and what else there is."""

    messages: list[StoredMessage]
    offsets: list[int]
    forms: list[bytes]
    others: list[tuple[StoredMessage, Provenance | None]]


class CopyForms:
    """Of a target queue's messages that are copies from `queue` of `cluster`, from source offset `start` on."""

    def __init__(self, cluster: str, queue: Queue, *, start: int) -> None:
        self._wanted = (cluster, *queue)
        self._mine = SOURCE + f"\x01{cluster}/{queue.broker}/{queue.queue_id}/".encode()
        self._start = start
        self._own = _Own()

    def of(self, messages: Sequence[StoredMessage]) -> Copies:
        """Of one or more."""
        found = Copies([], [], [], [])
        origins: list[bytes] = []
        places: list[bytes] = []
        rests: list[bytes] = []
        for message in messages:
            origin, place, rest = self._as_sent(message.properties)
            if not place:
                copy = provenance.read(message.properties)
                if copy is None or copy[1:4] != self._wanted:
                    found.others.append((message, copy))
                    continue
                origin, place, rest = copy.origin.encode(), b"%d/%d" % copy[4:], message.properties
            offset = int(place.partition(b"/")[0])
            if offset >= self._start:
                found.messages.append(message)
                found.offsets.append(offset)
                origins.append(origin)
                places.append(place)
                rests.append(rest)
        if rests:
            found.forms.extend(map(_form, found.messages, origins, places, self._own.of(rests)))
        return found

    def _as_sent(self, raw: bytes) -> tuple[bytes, bytes, bytes]:
        """Origin, place and the rest where they stand as the sink sends them; else no place."""
        parts = raw.split(b"\x02", 2)
        if len(parts) == 3 and parts[0].startswith(_ORIGIN) and parts[1].startswith(self._mine):
            place = parts[1][len(self._mine) :]
            offset, _, stored = place.partition(b"/")
            if offset.isdigit() and stored.isdigit() and parts[0].isascii():
                return parts[0][len(_ORIGIN) :], place, parts[2]
        return b"", b"", b""


class Runs:
    """How many messages there are of each run of source offsets, and the digest of their forms in this order."""

    def __init__(self) -> None:
        self._count: defaultdict[int, int] = defaultdict(int)
        self._hashes: defaultdict[int, Any] = defaultdict(hashlib.sha256)

    def add(self, offsets: Sequence[int], forms: Sequence[bytes]) -> None:
        """The forms of messages with these source offsets, one or more."""
        run = offsets[0] // RUN
        if min(offsets) // RUN == run == max(offsets) // RUN:
            self._put(run, forms)
            return
        for run, pairs in groupby(zip(offsets, forms, strict=True), key=lambda pair: pair[0] // RUN):
            self._put(run, [form for _, form in pairs])

    def _put(self, run: int, forms: Sequence[bytes]) -> None:
        self._count[run] += len(forms)
        self._hashes[run].update(b"".join(forms))

    def __iter__(self) -> Iterator[int]:
        return iter(self._count)

    @property
    def messages(self) -> int:
        """In all runs."""
        return sum(self._count.values())

    def of(self, run: int) -> tuple[int, bytes]:
        """What two sides have in common where they have the same messages of `run` in the same order."""
        return (self._count[run], self._hashes[run].digest()) if run in self._count else (0, b"")

    def digest(self, runs: Iterable[int]) -> str:
        """Of these runs, in 16 hexadecimal digits."""
        return hashlib.sha256(b"".join(self.of(run)[1] for run in runs)).hexdigest()[:16]
