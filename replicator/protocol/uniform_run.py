"""Messages of one shape: compiled code (`uniform_run.c`) makes them the entries of a batch, a pull in one call.

They are what a pull brings nearly always. Everything else, and a machine for which nothing was compiled, goes the
way of `message.cut`, one message after the other; what comes of it is the same.
"""

from __future__ import annotations

import ctypes
import re
import threading
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, overload

from replicator.protocol.batch import KEPT_SYS_FLAGS, entry
from replicator.protocol.message import StoredMessage, parse_messages
from replicator.protocol.properties import BROKER_MADE, SEAL, strip

__all__ = ["COMPILED", "UniformRun", "library", "messages_in", "offsets_of", "sent_as", "size_of"]

#: Beside this module once the package is installed.
LIBRARY: Final = Path(__file__).with_name("_uniform_run.so")

_NAMES: Final = b"".join(bytes([len(name)]) + name for name in BROKER_MADE) + b"\0"
_ADDED: Final = bytes([len(SEAL)]) + SEAL + _NAMES
_SEALED = re.compile(b"\x02" + SEAL + b"\x01[^\x02]*")
#: Bytes and messages that are taken at once; by default pulls return 256 KiB and 32 messages.
_ROOM: Final = 1024 * 1024
_MOST: Final = 1024


def _load() -> ctypes.PyDLL | None:
    try:
        library = ctypes.PyDLL(str(LIBRARY))  # its calls are too short to let other threads run meanwhile
    except OSError:
        return None
    text, size, number = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int64
    library.replicator_uniform_run.argtypes = (text, size, ctypes.c_int32, ctypes.c_void_p)
    library.replicator_uniform_run.restype = number
    library.replicator_mentions.argtypes = (text, size, text, size)
    library.replicator_mentions.restype = ctypes.c_int32
    library.replicator_entries.argtypes = (
        *(text, size, text, size, text, number, number),
        *(ctypes.c_void_p, size, ctypes.c_void_p),
    )
    library.replicator_entries.restype = number
    library.replicator_sent.argtypes = (text, size, text, ctypes.c_void_p, size)
    library.replicator_sent.restype = number
    library.replicator_records.argtypes = (text, size, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p, size)
    library.replicator_records.restype = number
    library.replicator_length.argtypes = (text, size, number)
    library.replicator_length.restype = number
    library.replicator_take_apart.argtypes = (text, size, number, ctypes.c_void_p, number)
    library.replicator_take_apart.restype = number
    library.replicator_pairs.argtypes = (ctypes.c_void_p, ctypes.c_void_p, number, ctypes.c_void_p, number)
    library.replicator_pairs.restype = number
    library.replicator_put_together.argtypes = (number, ctypes.c_void_p, ctypes.c_void_p, size)
    library.replicator_put_together.restype = number
    return library


_library = _load()
#: Whether there is compiled code for this machine.
COMPILED: Final = _library is not None


def library() -> ctypes.PyDLL:
    """The compiled code, where there is some."""
    assert _library is not None  # noqa: S101 - whoever asks has seen `COMPILED`, or a run
    return _library


class _Common(ctypes.Structure):
    """What the messages have in common, as `uniform_run.c` says it."""

    _fields_ = (
        ("offset", ctypes.c_int64),
        ("born", ctypes.c_int64),
        ("same_born", ctypes.c_int64),
        ("sys_flag", ctypes.c_int32),
        ("reconsumed", ctypes.c_int32),
    )


class _Scratch(threading.local):
    """Where the compiled code writes."""

    def __init__(self) -> None:
        out, stored = ctypes.create_string_buffer(_ROOM), (ctypes.c_int64 * _MOST)()
        self.common = _Common()
        self.out, self.stored = memoryview(out).cast("B"), memoryview(stored).cast("B")
        self.at_out, self.at_stored = ctypes.addressof(out), ctypes.addressof(stored)
        self.at_common = ctypes.addressof(self.common)


_scratch = _Scratch()


class UniformRun(Sequence[StoredMessage]):
    """One or more messages whose offsets follow one another and that may share a batch; cut when one is asked for.

    `sys_flag` is what is kept of it, `born_timestamp` that of the first one, `same_born` whether of the others too.
    """

    __slots__ = ("_cut", "_data", "_length", "born_timestamp", "offset", "reconsume_times", "same_born", "sys_flag")

    def __init__(self, data: bytes, length: int, common: _Common) -> None:
        self._data = data
        self._length = length
        self._cut: list[StoredMessage] | None = None
        self.offset: int = common.offset
        self.born_timestamp: int = common.born
        self.same_born = common.same_born != 0
        self.sys_flag: int = common.sys_flag
        self.reconsume_times: int = common.reconsumed

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> StoredMessage: ...
    @overload
    def __getitem__(self, index: slice) -> list[StoredMessage]: ...
    def __getitem__(self, index: int | slice) -> StoredMessage | list[StoredMessage]:
        return self._all()[index]

    def __iter__(self) -> Iterator[StoredMessage]:
        return iter(self._all())

    @property
    def stored(self) -> bytes:
        """All of them as a pull has brought them."""
        return self._data

    def _all(self) -> list[StoredMessage]:
        if self._cut is None:
            self._cut = parse_messages(self._data)
        return self._cut

    @property
    def offsets(self) -> range:
        """Theirs in the source queue."""
        return range(self.offset, self.offset + self._length)

    def mention(self, text: bytes) -> bool:
        """Whether `text` is in the properties of one of them."""
        return bool(library().replicator_mentions(self._data, len(self._data), text, len(text)))

    def entries(self, stamp: bytes, *, more: int, limit: int) -> tuple[bytes, array[int]] | None:
        """All of them as entries of a batch, and their store timestamps.

        Their properties are `stamp`, `offset/timestamp`, and what is left of their own without `BROKER_MADE`.

        Args:
            more: bytes by which a broker may count a message for more than its entry.
            limit: bytes that brokers may count for all.

        Returns:
            None: it has to be done one by one, since there is too much of something.
        """
        scratch, data, count = _scratch, self._data, self._length
        if count > _MOST:
            return None
        written = library().replicator_entries(
            *(data, len(data), stamp, len(stamp), _NAMES, more, limit),
            *(scratch.at_out, _ROOM, scratch.at_stored),
        )
        if not written:
            return None
        stored = array("q")
        stored.frombytes(scratch.stored[: 8 * count])
        return bytes(scratch.out[:written]), stored

    def sent(self) -> bytes | None:
        """These copies as entries of the batch in which they were sent: without what brokers made, and the seal.

        Returns:
            None: it has to be done one by one, since there is too much of something.
        """
        scratch, data = _scratch, self._data
        written = library().replicator_sent(data, len(data), _ADDED, scratch.at_out, _ROOM)
        return bytes(scratch.out[:written]) if written else None

    def split(self, count: int) -> tuple[Sequence[StoredMessage], Sequence[StoredMessage]]:
        """The first `count` messages, which are fewer than all, and the others."""
        end = library().replicator_length(self._data, len(self._data), count)
        return messages_in(self._data[:end]), messages_in(self._data[end:])

    def records(self, entries: bytes) -> bytes | None:
        """What is to be known of these messages beside their bodies, given their entries in a batch.

        Of each its properties there, then bodyCRC, flag, sysFlag and reconsumeTimes, of 32 bits each.

        Returns:
            None: it has to be done one by one, since there is too much of something.
        """
        scratch, kept = _scratch, (self.sys_flag, self.reconsume_times)
        written = library().replicator_records(entries, len(entries), *kept, scratch.at_out, _ROOM)
        return bytes(scratch.out[:written]) if written else None


def sent_as(copies: Sequence[StoredMessage]) -> bytes:
    """Stored copies as entries of the batch in which they were sent, without a seal; properties end in 0x02."""
    if isinstance(copies, UniformRun) and (entries := copies.sent()) is not None:
        return entries
    own = [_SEALED.sub(b"", raw) for raw in strip([copy.properties for copy in copies])]
    return b"".join(
        entry(copy.body, raw[1:] + b"\x02" if raw else b"", body_crc=copy.body_crc, flag=copy.flag)
        for copy, raw in zip(copies, own, strict=True)
    )


def messages_in(data: bytes) -> Sequence[StoredMessage]:
    """The messages in the body of an answer to a pull, in their order.

    Raises:
        ProtocolError: the bytes are no stored messages.
    """
    if _library is not None:
        count = _library.replicator_uniform_run(data, len(data), KEPT_SYS_FLAGS, _scratch.at_common)
        if count:
            return UniformRun(data, count, _scratch.common)
    return parse_messages(data)


def offsets_of(messages: Sequence[StoredMessage]) -> Sequence[int]:
    """The queue offsets of `messages`."""
    return messages.offsets if isinstance(messages, UniformRun) else [message.queue_offset for message in messages]


def size_of(messages: Sequence[StoredMessage]) -> int:
    """About how many bytes `messages` take: those of bodies and properties, of a run also the others."""
    if isinstance(messages, UniformRun):
        return len(messages.stored)
    return sum(len(message.body) + len(message.properties) for message in messages)
