"""Packs: messages of one queue in the form of a batch's body, equal in what a batch says only once.

What a pull brought is packed as soon as it has come, while it is in the processor's caches. What waits for its
batch then are a few large pieces, not thousands of small ones.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence, Set
from typing import Final

from replicator.protocol.batch import KEPT_SYS_FLAGS, pack_head, pack_length, size_of, unpack
from replicator.protocol.message import StoredMessage
from replicator.protocol.properties import LIGHT_OFFSETS, MAX_PROPERTIES, is_light
from replicator.protocol.uniform_run import UniformRun
from replicator.routing.provenance import Stamp

__all__ = ["STORED_MORE", "Pack", "Packer"]

#: Bytes by which a stored message may be larger than its entry in a batch: hosts (IPv6), offsets and
#: timestamps (96), and the properties that brokers append. 4.9.7 adds up stored sizes for its limit.
STORED_MORE: Final = 256

_NONE: Final[Mapping[int, str]] = {}


class Pack:
    """One or more messages as entries of a batch, in `data`.

    `offsets` are theirs in the source queue, `stored` the times at which the source stored them (milliseconds
    since the epoch). `sys_flag` (what is kept of it), `reconsume_times`, and `born_timestamp`, that of the first
    one, are what a batch has once. `refused` says why a transform refuses the one message of it, `too_long` how
    many bytes its properties have where no request can hold them; such a pack is not to be sent. `light`: its one
    message is in light message queues of the source, and gets into those of the target in a single send only.
    """

    __slots__ = (
        "born_timestamp",
        "data",
        "light",
        "offsets",
        "reconsume_times",
        "refused",
        "stored",
        "sys_flag",
        "too_long",
    )

    def __init__(
        self,
        data: bytes,
        offsets: Sequence[int],
        stored: Sequence[int],
        *,
        sys_flag: int,
        reconsume_times: int,
        born_timestamp: int,
    ) -> None:
        self.data = data
        self.offsets = offsets
        self.stored = stored
        self.sys_flag = sys_flag
        self.reconsume_times = reconsume_times
        self.born_timestamp = born_timestamp
        self.refused = ""
        self.too_long = 0
        self.light = False

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def alone(self) -> bool:
        """Whether it shares a batch with no other: it is not to be sent, or not in a batch."""
        return self.too_long > 0 or self.refused != "" or self.light

    def message(self) -> StoredMessage:
        """The first one as it goes out: its properties have provenance, and nothing that brokers made."""
        crc, flag, body, properties = unpack(self.data)
        return StoredMessage(
            self.offsets[0],
            flag,
            self.sys_flag,
            self.born_timestamp,
            self.stored[0],
            self.reconsume_times,
            crc,
            body,
            properties,
        )

    def halves(self) -> tuple[Pack, Pack]:
        """Two packs that have its messages, which are two or more."""
        middle, at = len(self) // 2, 0
        for _ in range(middle):
            at += size_of(self.data, at)
        return (
            self._part(self.data[:at], self.offsets[:middle], self.stored[:middle]),
            self._part(self.data[at:], self.offsets[middle:], self.stored[middle:]),
        )

    def _part(self, data: bytes, offsets: Sequence[int], stored: Sequence[int]) -> Pack:
        return Pack(
            data,
            offsets,
            stored,
            sys_flag=self.sys_flag,
            reconsume_times=self.reconsume_times,
            born_timestamp=self.born_timestamp,
        )


class Packer:
    """Packs what is pulled from one queue.

    Args:
        limit: bytes that one pack may be stored as; a larger message is alone in its pack.
        exact_born: messages of different born timestamps do not share a pack.
    """

    def __init__(self, stamp: Stamp, *, topic: str, limit: int, max_messages: int, exact_born: bool) -> None:
        self.limit = limit
        self.max_messages = max_messages
        self.exact_born = exact_born
        #: Bytes by which a broker may count a message for more than its entry.
        self.more = STORED_MORE + len(topic)
        self._stamp = stamp

    def pack(
        self, messages: Sequence[StoredMessage], *, copies: bool, refused: Mapping[int, str] = _NONE
    ) -> list[Pack]:
        """All of `messages`, in order.

        Args:
            copies: whether some of them are copies themselves.
            refused: why, by source offset.
        """
        if not messages:
            return []
        light = _light(messages)
        if isinstance(messages, UniformRun) and not copies and not refused and not light:
            pack = self._alike(messages)
            if pack is not None:
                return [pack]
        stamped = (self._stamp.renew if copies else self._stamp.put)(messages)
        apart = refused.keys() | light
        packs: list[Pack] = []
        start = 0
        while start < len(messages):
            pack = self._run(messages, stamped, start, self._stop(messages, start, apart))
            start += len(pack)
            pack.refused = refused.get(pack.offsets[0], "")
            pack.light = pack.offsets[0] in light
            packs.append(pack)
        return packs

    def _alike(self, messages: UniformRun) -> Pack | None:
        """All of `messages` in one pack, if one may have them."""
        if len(messages) > self.max_messages or (self.exact_born and not messages.same_born):
            return None
        packed = messages.entries(self._stamp.lead, more=self.more, limit=self.limit)
        if packed is None:
            return None
        data, stored = packed
        return Pack(
            data,
            messages.offsets,
            stored,
            sys_flag=messages.sys_flag,
            reconsume_times=messages.reconsume_times,
            born_timestamp=messages.born_timestamp,
        )

    def _stop(self, messages: Sequence[StoredMessage], start: int, apart: Set[int]) -> int:
        """Where a pack from `start` on ends at the latest; each offset of `apart` has a pack of its own."""
        stop = min(len(messages), start + self.max_messages)
        if not apart:
            return stop
        if messages[start].queue_offset in apart:
            return start + 1
        return next((i for i in range(start, stop) if messages[i].queue_offset in apart), stop)

    def _run(self, messages: Sequence[StoredMessage], stamped: Sequence[bytes], start: int, stop: int) -> Pack:
        """As many messages as may share a pack, from `start` on."""
        first, kept, exact_born = messages[start], KEPT_SYS_FLAGS, self.exact_born
        kind, times, born = first.sys_flag & kept, first.reconsume_times, first.born_timestamp
        parts: list[bytes] = []
        add, more, limit, weight, at = parts.extend, self.more, self.limit, 0, start
        for message, raw in zip(messages[start:stop], stamped[start:stop], strict=True):
            if message.sys_flag & kept != kind or message.reconsume_times != times:
                break
            if exact_born and message.born_timestamp != born:
                break
            body, size = message.body, len(raw)
            entry = 18 + len(body) + size
            if (weight + entry + more > limit or size > MAX_PROPERTIES) and at > start:
                break
            weight += entry + more
            at += 1
            add(
                (
                    pack_head(entry, 0, message.body_crc, message.flag),
                    body,
                    pack_length(min(size, MAX_PROPERTIES)),
                    raw,
                )
            )
            if size > MAX_PROPERTIES:
                break
        run = messages[start:at]
        pack = Pack(
            b"".join(parts),
            _offsets(run),
            array("q", [message.store_timestamp for message in run]),
            sys_flag=kind,
            reconsume_times=times,
            born_timestamp=born,
        )
        if len(stamped[start]) > MAX_PROPERTIES:
            pack.too_long = len(stamped[start])
        return pack


def _light(messages: Sequence[StoredMessage]) -> Set[int]:
    """The offsets of those that are in light message queues of the source."""
    if isinstance(messages, UniformRun) and not messages.mention(LIGHT_OFFSETS):
        return frozenset()
    return {message.queue_offset for message in messages if is_light(message.properties)}


def _offsets(run: Sequence[StoredMessage]) -> Sequence[int]:
    first, end = run[0].queue_offset, run[-1].queue_offset + 1
    return range(first, end) if end - first == len(run) else [message.queue_offset for message in run]
