"""The properties of a message as bytes: `name 0x01 value 0x02 …`, UTF-8.

Some brokers leave out the last 0x02 (4.9.7 does). Properties are cut and appended as bytes, so that
what the application wrote is never decoded. Source: `MessageDecoder.messageProperties2String`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = [
    "BROKER_MADE",
    "MAX_PROPERTIES",
    "broker_made_tail",
    "decode",
    "encode",
    "find",
    "find_broker_made",
    "strip",
]

#: Bytes. The length field of a stored message is a signed short.
MAX_PROPERTIES: Final = 32_767

#: What brokers append to each message that they store. In a batch they append without removing the
#: old ones (4.9.7: CLUSTER; 5.3.3: MSG_REGION and TRACE_ON too), so that they would pile up hop by hop.
BROKER_MADE: Final = (b"MSG_REGION", b"TRACE_ON", b"CLUSTER")

_NAMES: Final = tuple(name + b"\x01" for name in BROKER_MADE)
#: One of them with the 0x02 in front of it. One pass of this is a third of the cost of a split.
_BROKER_MADE = re.compile(b"\x02(?:" + b"|".join(BROKER_MADE) + b")\x01[^\x02]*")


def find(properties: bytes, name: bytes) -> bytes | None:
    """The value of property `name`, or None."""
    mark = name + b"\x01"
    at = 0 if properties.startswith(mark) else properties.find(b"\x02" + mark) + 1
    if at == 0 and not properties.startswith(mark):
        return None
    start = at + len(mark)
    end = properties.find(b"\x02", start)
    return properties[start:] if end < 0 else properties[start:end]


#: The first property that a broker made, if it is not the first of all.
find_broker_made = _BROKER_MADE.search


def broker_made_tail(properties: bytes) -> bytes:
    """The end of `properties` that only brokers made, with the 0x02 in front of it; empty if there is none."""
    parts = properties.split(b"\x02")
    own = len(parts) if parts[-1] else len(parts) - 1
    while own and parts[own - 1].startswith(_NAMES):
        own -= 1
    tail = b"\x02" + b"\x02".join(parts[own:])
    return tail if own and len(tail) > 1 else b""


def strip(properties: bytes) -> bytes:
    """`properties` without what brokers made, ending in 0x02.

    Args:
        properties: the first of them is not a broker's.
    """
    stripped = _BROKER_MADE.sub(b"", properties)
    return stripped if stripped[-1:] == b"\x02" else stripped + b"\x02"


def decode(properties: bytes) -> dict[str, str]:
    """All properties as text; what is no UTF-8 is shown with replacement characters."""
    pairs = (part.partition(b"\x01") for part in properties.split(b"\x02") if part)
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in pairs}


def encode(properties: Mapping[str, str]) -> bytes:
    """The bytes of `properties`, ending in 0x02 unless empty."""
    return b"".join(f"{name}\x01{value}\x02".encode() for name, value in properties.items())
