"""Messages as columns, for what stores them so: taken apart and put together by compiled code, many at a time.

Where nothing was compiled it is done one message after the other, with the same result.
"""

from __future__ import annotations

import ctypes
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from replicator.protocol.message import StoredMessage
from replicator.protocol.uniform_run import UniformRun, library, messages_in

__all__ = ["WIDTHS", "Columns", "put_together", "take_apart"]

#: Bytes of a value of each column of numbers that messages are put together from.
WIDTHS: Final = {
    **dict.fromkeys(("offset", "born", "stored"), 8),
    **dict.fromkeys(("flag", "sys_flag", "reconsumed", "crc", "body_ends", "properties_ends"), 4),
}
#: Bytes that a message takes beside its body and its properties.
_MORE: Final = 96
#: Bytes that are enough for most messages that are put together.
_ROOM: Final = 1024 * 1024


class _Pointers(ctypes.Structure):
    """Where columns lie, as `uniform_run.c` says it."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in (*WIDTHS, "body", "properties"))


class _Scratch(threading.local):
    """Where the compiled code writes: memory that is kept, since the system takes long to give new."""

    def __init__(self) -> None:
        self._room = ctypes.create_string_buffer(_ROOM)

    def of(self, size: int) -> int:
        """The address of so many bytes."""
        if len(self._room) < size:
            self._room = ctypes.create_string_buffer(size)
        return ctypes.addressof(self._room)


_scratch = _Scratch()


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of messages; numbers are of 64 or 32 bits, times in milliseconds since the epoch.

    Bodies as stored, without their lengths, lie one behind the other in `body`, and so do properties without the
    byte behind the last. They end where the number behind their own in `body_ends` and `properties_ends` says,
    which begin with 0.
    """

    offset: array[int]
    born: array[int]
    stored: array[int]
    flag: array[int]
    sys_flag: array[int]
    reconsumed: array[int]
    crc: array[int]
    body_ends: array[int]
    properties_ends: array[int]
    body: bytes | bytearray
    properties: bytes | bytearray

    @property
    def count(self) -> int:
        """Messages."""
        return len(self.offset)


def take_apart(
    chunks: Sequence[Sequence[StoredMessage]], *, room: Callable[[int], bytearray] = bytearray
) -> Columns:
    """The columns of all messages of `chunks`, in their order.

    Args:
        room: so many bytes, one at least, that can be written; whatever has Python's buffer protocol.
    """
    runs = [each for each in chunks if isinstance(each, UniformRun)]
    if len(runs) == len(chunks):
        return _of_runs(runs, room)
    return _of_messages([message for messages in chunks for message in messages])


def _of_runs(runs: Sequence[UniformRun], room: Callable[[int], bytearray]) -> Columns:
    count, size = sum(map(len, runs)), sum(len(each.stored) for each in runs)
    numbers = [array("q" if width == 8 else "i", bytes(width * count)) for width in WIDTHS.values()]
    for ends in numbers[-2:]:
        ends.append(0)
    texts = [room(max(1, size)) for _ in range(2)]
    addresses = [column.buffer_info()[0] for column in numbers]
    addresses += [ctypes.addressof(ctypes.c_char.from_buffer(column)) for column in texts]
    places, done = ctypes.byref(_Pointers(*addresses)), 0
    take = library().replicator_take_apart
    for run in runs:
        taken = take(run.stored, len(run.stored), len(run), places, done)
        assert taken == len(run)  # noqa: S101 - runs are whole
        done += taken
    body, properties = texts
    return Columns(**dict(zip(WIDTHS, numbers, strict=True)), body=body, properties=properties)


def _of_messages(messages: Sequence[StoredMessage]) -> Columns:
    own = [message.properties.rstrip(b"\x02") for message in messages]
    return Columns(
        array("q", [message.queue_offset for message in messages]),
        array("q", [message.born_timestamp for message in messages]),
        array("q", [message.store_timestamp for message in messages]),
        array("i", [message.flag for message in messages]),
        array("i", [message.sys_flag for message in messages]),
        array("i", [message.reconsume_times for message in messages]),
        array("i", [message.body_crc - (message.body_crc >> 31 << 32) for message in messages]),
        array("i", accumulate((message.body_length for message in messages), initial=0)),
        array("i", accumulate(map(len, own), initial=0)),
        b"".join(message.content for message in messages),
        b"".join(own),
    )


def put_together(count: int, places: Mapping[str, int], size: int) -> Sequence[StoredMessage]:
    """The messages of columns, as a pull would have brought them; only with compiled code.

    Args:
        places: addresses of the columns' first values, by their names in `Columns`; of all but `crc`, which follows
            from the body.
        size: bytes of all bodies and properties.

    Raises:
        ProtocolError: a column has what no message has.
        ValueError: properties are longer than a message can have.
    """
    room = size + count * _MORE
    out = _scratch.of(room)
    written = library().replicator_put_together(count, ctypes.byref(_Pointers(**places)), out, room)
    if not written:
        raise ValueError("properties that are too long")
    return messages_in(ctypes.string_at(out, written))
