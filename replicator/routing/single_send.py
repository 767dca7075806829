"""What a single send (310) does to a message that a batch (320) would leave as it is."""

from __future__ import annotations

from typing import Final

from replicator.client.system_topics import LIGHT_PREFIX
from replicator.protocol.message import StoredMessage
from replicator.protocol.properties import LIGHT_QUEUES, find, without

__all__ = ["HELD_BACK", "OFTEN", "unsendable", "why_not_singly", "without_delay"]

#: A single send of a message with one of these would be delayed or held back once more.
HELD_BACK: Final = (b"DELAY", b"TIMER_DELIVER_MS", b"TIMER_DELAY_SEC", b"TIMER_DELAY_MS", b"TRAN_MSG")

#: The attempts after which a single send may go to the dead letters, where it is not to: what was tried often.
OFTEN: Final = str(2**31 - 1)

_NO_BODY: Final = "it has no body, which a single send requires"
_NO_TEXT: Final = "its properties are not UTF-8, which a single send requires: they are in its JSON header"

#: 5.5.0 puts a single send with it into the queue of that number.
_PRIORITY: Final = b"_SYS_MSG_PRIORITY_"

_LIGHT: Final = LIGHT_PREFIX.encode()


def without_delay(raw: bytes) -> bytes:
    """The properties `raw` of a message to be consumed again: its delay is over, and would begin once more."""
    return without(raw, HELD_BACK)


def unsendable(message: StoredMessage) -> str:
    """Why no single send can be made of `message`, whatever becomes of its properties; empty where one can."""
    if not message.body_length:
        return _NO_BODY
    try:
        message.properties.decode()
    except UnicodeDecodeError:
        return _NO_TEXT
    return ""


def why_not_singly(message: StoredMessage) -> str:
    """Why a single send would not store `message` as it is, in the queue that it is for; empty when it would."""
    if why := unsendable(message):
        return why
    for name in HELD_BACK:
        if find(message.properties, name) is not None:
            return f"in a single send it would be delayed or held back once more by its property {name.decode()}"
    if find(message.properties, _PRIORITY) is not None:
        return f"in a single send it would go into another queue by its property {_PRIORITY.decode()}"
    queues = (find(message.properties, LIGHT_QUEUES) or b"").rstrip(b",").split(b",")
    light = [queue.startswith(_LIGHT) for queue in queues]
    if any(light) and not all(light):
        # 5.x gives such a queue no offset, cannot read its own list of offsets then, and fills no further queue.
        other = queues[light.index(False)].decode(errors="replace")
        return f"its property {LIGHT_QUEUES.decode()} has {other!r} beside light message queues (%LMQ%...)"
    return ""
