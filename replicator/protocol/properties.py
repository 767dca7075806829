"""The properties of a message as bytes: `name 0x01 value 0x02 …`, UTF-8.

Some brokers leave out the last 0x02 (4.9.7 does). Properties are cut and appended as bytes, so that
what the application wrote is never decoded. Source: `MessageDecoder.messageProperties2String`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

__all__ = [
    "BROKER_MADE",
    "LIGHT_OFFSETS",
    "LIGHT_QUEUES",
    "MAX_PROPERTIES",
    "SEAL",
    "Stripping",
    "broker_made_tail",
    "decode",
    "encode",
    "find",
    "is_light",
    "is_stripped",
    "light_offset",
    "number",
    "strip",
    "without",
]

#: Bytes. The length field of a stored message is a signed short.
MAX_PROPERTIES: Final = 32_767

#: Digits that no number of 64 bits has.
_DIGITS: Final = 20

#: The light message queues (LMQ) that a message is for, with commas between; and its offsets in them, which brokers
#: with LMQ give to single sends, not to batches: without them a message is in none.
LIGHT_QUEUES: Final = b"INNER_MULTI_DISPATCH"
LIGHT_OFFSETS: Final = b"INNER_MULTI_QUEUE_OFFSET"

#: What brokers append to each message that they store. In a batch they append without removing the
#: old ones (4.9.7: CLUSTER; 5.3.3: MSG_REGION and TRACE_ON too), so that they would pile up hop by hop. With
#: `enabledAppendPropCRC` (5.x) a checksum of the message as it is stored there is among them.
BROKER_MADE: Final = (b"MSG_REGION", b"TRACE_ON", b"CLUSTER", b"__CRC32#", LIGHT_OFFSETS)

#: What a sender adds to the first message of a batch to prove that it is the sender's.
SEAL: Final = b"__RPL_SEAL"

_NAMES: Final = tuple(name + b"\x01" for name in BROKER_MADE)
#: One of them with the 0x02 in front of it. One pass of this is a third of the cost of a split.
_BROKER_MADE = re.compile(b"\x02(?:" + b"|".join(BROKER_MADE) + b")\x01[^\x02]*")

#: Between the properties of two messages in `strip`; its 0xff is never in UTF-8.
_BETWEEN: Final = b"\x02\xff\x02"
#: What must not be in a message's own properties: an empty one, or one of them.
_SUSPECT = re.compile(b"\x02(?:\x02|(?:" + b"|".join(BROKER_MADE) + b")\x01)")


def find(properties: bytes, name: bytes) -> bytes | None:
    """The value of property `name`, or None."""
    mark = name + b"\x01"
    at = 0 if properties.startswith(mark) else properties.find(b"\x02" + mark) + 1
    if at == 0 and not properties.startswith(mark):
        return None
    start = at + len(mark)
    end = properties.find(b"\x02", start)
    return properties[start:] if end < 0 else properties[start:end]


def number(text: str | bytes) -> int | None:
    """The whole number that a broker or a client has written; None for what is none that fits in 64 bits.

    Python refuses to read thousands of digits, and anyone may write them.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS else None


def broker_made_tail(properties: bytes) -> bytes:
    """The end of `properties` that only brokers made, from the 0x02 in front of it; that alone if there is none."""
    parts = properties.split(b"\x02")
    own = len(parts) if parts[-1] else len(parts) - 1
    while own and parts[own - 1].startswith(_NAMES):
        own -= 1
    return b"\x02" + b"\x02".join(parts[own:]) if own else b"\x02"


def is_stripped(many: Sequence[bytes]) -> bool:
    """Whether each of `many` is not empty, has nothing in it that brokers made, and does not end in 0x02."""
    return _SUSPECT.search(b"\x02%b\x02" % _BETWEEN.join(many)) is None


def strip(many: Sequence[bytes]) -> list[bytes]:
    """The properties of many messages without what brokers made, each with 0x02 in front but none at its end.

    It is one pass over all of them; where nothing is left, nothing is in front either.
    """
    stripped = _BROKER_MADE.sub(b"", b"\x02" + _BETWEEN.join(many)).split(b"\xff")
    if len(stripped) != len(many):
        stripped = [_BROKER_MADE.sub(b"", b"\x02" + each) for each in many]
    return [each.rstrip(b"\x02") for each in stripped]


class Stripping:
    """`strip` of messages that come from one broker.

    What the broker appended to one message it appends to the next ones too: that is cut off cheaply.
    """

    __slots__ = ("_tail",)

    def __init__(self) -> None:
        self._tail = b"\x02"

    def of(self, many: Sequence[bytes]) -> tuple[list[bytes], bool]:
        """The properties of one or more messages without what brokers made, none ends in 0x02.

        Returns:
            also whether they are as from `strip`, with 0x02 in front; else they are bare, and none is empty.
        """
        tail = self._tail
        own = [each.removesuffix(tail) for each in many]
        if is_stripped(own):
            return own, False
        self._tail = broker_made_tail(many[-1])
        return strip(many), True


def without(properties: bytes, names: Sequence[bytes]) -> bytes:
    """`properties` but for those called so."""
    marks = tuple(name + b"\x01" for name in names)
    return b"\x02".join(part for part in properties.split(b"\x02") if not part.startswith(marks))


def is_light(properties: bytes) -> bool:
    """Whether a stored message is in light message queues."""
    if LIGHT_OFFSETS not in properties:
        return False
    return all((find(properties, name) or b"").strip() for name in (LIGHT_QUEUES, LIGHT_OFFSETS))


def decode(properties: bytes) -> dict[str, str]:
    """All properties as text; what is no UTF-8 is shown with replacement characters."""
    pairs = (part.partition(b"\x01") for part in properties.split(b"\x02") if part)
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in pairs}


def encode(properties: Mapping[str, str]) -> bytes:
    """The bytes of `properties`, ending in 0x02 unless empty."""
    return b"".join(f"{name}\x01{value}\x02".encode() for name, value in properties.items())


def light_offset(properties: bytes, queue: str) -> int | None:
    """The offset of a stored message in a light message queue; None: it is not in that.

    Brokers name the queues of a message in one property and its offsets there, in the same order, in another.
    """
    names = (find(properties, LIGHT_QUEUES) or b"").split(b",")
    offsets = (find(properties, LIGHT_OFFSETS) or b"").split(b",")
    found = dict(zip(names, offsets, strict=False)).get(queue.encode())
    return None if found is None else number(found)
