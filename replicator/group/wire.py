"""What workers write to the system topics: heartbeats, and keyed records of shared state.

A message's body is JSON, or JSON compressed by zlib: `version` is that of the form, `group`, `worker` and
`incarnation` say who wrote it, and `counter` grows with each message of that process. What is read has bounds: in
bytes, in values, and in what each value may be.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from replicator.errors import ReplicatorError
from replicator.group.freshness import Echo
from replicator.group.membership import Generation, Heartbeat, MemberState
from replicator.state.record import Record
from replicator.state.record_types import Count, Skipped, Text, WorkerId, counter_limit, fit_all

__all__ = [
    "FORM",
    "Author",
    "Envelope",
    "NewerForm",
    "Unreadable",
    "group_of",
    "read_message",
    "write_heartbeat",
    "write_records",
]

#: Version of the form. What says a greater one was written by a later program.
FORM: Final = 1

#: Bytes of JSON above which a body is compressed, and above which records go into another message.
_COMPRESS: Final = 1024
_FULL: Final = 64 * 1024
#: Bytes that a body may have uncompressed, and values in it: an assignment of 100,000 tasks has a fifth of both. A
#: value takes some hundred bytes of memory, and each but the first needs a comma, a bracket or a brace.
_BYTES: Final = 16 * 1024 * 1024
_VALUES: Final = 300_000


class Unreadable(ReplicatorError):
    """A message on a system topic that no worker wrote."""


class NewerForm(ReplicatorError):
    """A message on a system topic that a later program wrote."""


class Author(NamedTuple):
    """The process that writes: `worker` of `group`, started as `incarnation`."""

    group: str
    worker: str
    incarnation: str = ""


class _Wire(msgspec.Struct, forbid_unknown_fields=False):
    version: int
    group: Text
    worker: Text
    incarnation: Text = ""
    counter: Count = 0
    records: msgspec.Raw = msgspec.Raw(b"[]")
    heartbeat: _Beat | None = None


class _Info(msgspec.Struct):
    """What others read of a heartbeat's `info`: of a worker, or of a job."""

    rest: Text = ""
    version: Text = ""
    waiting_for: Text = ""
    view: list[Text] = []
    tasks: dict[Text, Text] = {}
    bulk: list[Text] = []
    topics: list[Text] = []
    exclude_topics: list[Text] = []


class _Beat(msgspec.Struct):
    incarnation: Text
    sequence: Count
    stage: MemberState
    generation: tuple[Count, WorkerId]
    releasing: list[Text]
    info: dict[str, Any]
    echo: tuple[Text, Count] | None = None


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message of a worker of `group`: a heartbeat, or records, which are read when they are asked for.

    `read_at` is in seconds since 1970, and bounds versions.
    """

    group: str
    worker: str
    incarnation: str
    counter: int
    heartbeat: Heartbeat | None
    read_at: float
    raw: bytes

    def records(self) -> tuple[list[Record], list[Skipped]]:
        """The records that are of the form of their kind, and the others."""
        return fit_all(self.raw, now=self.read_at)


class _Form(msgspec.Struct):
    version: int
    group: str = ""


_decode = msgspec.json.Decoder(_Wire).decode
_encode = msgspec.json.encode


def _pack(data: bytes) -> bytes:
    return data if len(data) <= _COMPRESS else zlib.compress(data, 1)


def write_heartbeat(group: str, heartbeat: Heartbeat) -> bytes:
    """The body that says `heartbeat`."""
    beat = _Beat(
        heartbeat.incarnation,
        heartbeat.sequence,
        heartbeat.stage,
        heartbeat.generation,
        sorted(heartbeat.releasing),
        dict(heartbeat.info),
        heartbeat.echo,
    )
    return _pack(_encode(_Wire(FORM, group, heartbeat.worker, heartbeat=beat)))


def write_records(author: Author, counters: Iterator[int], records: Iterable[Record]) -> Iterator[bytes]:
    """Bodies that hold `records`, as many as one message can well hold in each; each takes the next counter."""
    batch: list[msgspec.Raw] = []
    size = 0
    for record in records:
        encoded = msgspec.Raw(_encode(record))
        if batch and size + len(bytes(encoded)) > _FULL:
            yield _pack_records(author, next(counters), batch)
            batch, size = [], 0
        batch.append(encoded)
        size += len(bytes(encoded))
    if batch:
        yield _pack_records(author, next(counters), batch)


def _pack_records(author: Author, counter: int, batch: list[msgspec.Raw]) -> bytes:
    return _pack(
        _encode(_Wire(FORM, author.group, author.worker, author.incarnation, counter, msgspec.Raw(_encode(batch))))
    )


def _unpack(body: bytes) -> bytes:
    """The JSON.

    Raises:
        Unreadable: it is none, or too large.
    """
    if not body.startswith(b"{"):
        try:
            unpacking = zlib.decompressobj()
            body = unpacking.decompress(body, _BYTES)
        except zlib.error as error:
            raise Unreadable(str(error)) from None
        if unpacking.unconsumed_tail or not unpacking.eof:
            raise Unreadable(f"it is cut off, or larger than {_BYTES >> 20} MiB")
    if len(body) > _BYTES or sum(map(body.count, (b",", b"[", b"{"))) > _VALUES:
        raise Unreadable(f"it is larger than {_BYTES >> 20} MiB, or has more than {_VALUES:,} values")
    return body


def group_of(body: bytes) -> str:
    """The group that a body names.

    Raises:
        Unreadable: it is not one of ours.
    """
    try:
        return msgspec.json.decode(_unpack(body), type=_Form).group
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(str(error)) from None


def read_message(body: bytes, *, now: float | None = None) -> Envelope:
    """What a body says.

    Args:
        now: seconds since 1970, which bounds versions; the clock's if it is not given.

    Raises:
        Unreadable: it is not one of ours.
        NewerForm: it is of a later program.
    """
    now = time.time() if now is None else now
    try:
        body = _unpack(body)
        if msgspec.json.decode(body, type=_Form).version > FORM:
            raise NewerForm("a newer version wrote it", hint="upgrade this worker")
        wire = _decode(body)
        heartbeat = _heartbeat(wire.worker, wire.heartbeat, now)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(str(error)) from None
    return Envelope(
        wire.group,
        wire.worker,
        wire.incarnation if heartbeat is None else heartbeat.incarnation,
        wire.counter if heartbeat is None else heartbeat.sequence,
        heartbeat,
        now,
        bytes(wire.records),
    )


def _heartbeat(worker: str, beat: _Beat | None, now: float) -> Heartbeat | None:
    if beat is None:
        return None
    msgspec.convert(beat.info, _Info)
    if beat.generation[0] > counter_limit(now):
        raise Unreadable(f"its generation, {beat.generation[0]}, is further than any group can have counted")
    return Heartbeat(
        worker=worker,
        incarnation=beat.incarnation,
        sequence=beat.sequence,
        stage=beat.stage,
        generation=Generation(*beat.generation),
        releasing=frozenset(beat.releasing),
        info=beat.info,
        echo=None if beat.echo is None else Echo(*beat.echo),
    )
