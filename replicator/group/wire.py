"""What workers write to the system topics: heartbeats, and keyed records of shared state.

A message's body is JSON, or JSON compressed by zlib: `version` is that of the form, `group` and `worker`
say who wrote it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from replicator.errors import ReplicatorError
from replicator.group.membership import Generation, Heartbeat, MemberState
from replicator.state.record import Record

__all__ = [
    "FORM",
    "Envelope",
    "NewerForm",
    "Unreadable",
    "read_heartbeat",
    "read_message",
    "write_heartbeat",
    "write_records",
]

#: Version of the form. What says a greater one was written by a later program.
FORM: Final = 1

#: Bytes of JSON above which a body is compressed, and above which records go into another message.
_COMPRESS: Final = 1024
_FULL: Final = 512 * 1024
#: Bytes that a body may have uncompressed; a bomb is refused.
_MOST: Final = 64 * 1024 * 1024


class Unreadable(ReplicatorError):
    """A message on a system topic that no worker wrote."""


class NewerForm(ReplicatorError):
    """A message on a system topic that a later program wrote."""


class _Wire(msgspec.Struct, forbid_unknown_fields=False):
    version: int
    group: str
    worker: str
    records: list[Record] = []
    heartbeat: _Beat | None = None


class _Beat(msgspec.Struct):
    incarnation: str
    sequence: int
    stage: MemberState
    generation: Generation
    releasing: list[str]
    info: dict[str, Any]


class Envelope(NamedTuple):
    """A message of a worker of `group`: a heartbeat, or records."""

    group: str
    worker: str
    heartbeat: Heartbeat | None
    records: list[Record]


_decode = msgspec.json.Decoder(_Wire).decode
_encode = msgspec.json.encode


class _Form(msgspec.Struct):
    version: int


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
    )
    return _pack(_encode(_Wire(FORM, group, heartbeat.worker, heartbeat=beat)))


def write_records(group: str, worker: str, records: Iterable[Record]) -> Iterator[bytes]:
    """Bodies that hold `records`, as many as one message can well hold in each."""
    batch: list[msgspec.Raw] = []
    size = 0
    for record in records:
        encoded = msgspec.Raw(_encode(record))
        if batch and size + len(bytes(encoded)) > _FULL:
            yield _pack_records(group, worker, batch)
            batch, size = [], 0
        batch.append(encoded)
        size += len(bytes(encoded))
    if batch:
        yield _pack_records(group, worker, batch)


def _pack_records(group: str, worker: str, batch: list[msgspec.Raw]) -> bytes:
    return _pack(_encode({"version": FORM, "group": group, "worker": worker, "records": batch}))


def read_message(body: bytes) -> Envelope:
    """What a body says.

    Raises:
        Unreadable: it is none of ours.
        NewerForm: it is of a later program.
    """
    try:
        if not body.startswith(b"{"):
            unpacking = zlib.decompressobj()
            body = unpacking.decompress(body, _MOST)
            if unpacking.unconsumed_tail or not unpacking.eof:
                raise Unreadable("it is cut off, or larger than 64 MiB")
        if msgspec.json.decode(body, type=_Form).version > FORM:
            raise NewerForm("a newer version wrote it", hint="upgrade this worker")
        wire = _decode(body)
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(str(error)) from None
    return Envelope(wire.group, wire.worker, _heartbeat(wire.worker, wire.heartbeat), wire.records)


def read_heartbeat(body: bytes, group: str) -> Heartbeat | None:
    """The heartbeat in `group` that a body says; None where it says anything else, or cannot be read."""
    try:
        envelope = read_message(body)
    except (Unreadable, NewerForm):
        return None
    return envelope.heartbeat if envelope.group == group else None


def _heartbeat(worker: str, beat: _Beat | None) -> Heartbeat | None:
    return (
        None
        if beat is None
        else Heartbeat(
            worker=worker,
            incarnation=beat.incarnation,
            sequence=beat.sequence,
            stage=beat.stage,
            generation=beat.generation,
            releasing=frozenset(beat.releasing),
            info=beat.info,
        )
    )
