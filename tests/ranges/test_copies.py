"""What a copy must keep of its message, and what a target's broker may add."""

from __future__ import annotations

import pytest

from replicator.protocol.message import StoredMessage
from replicator.ranges.copies import Kept

PROVENANCE = b"__RPL_ORIGIN\x01s\x02__RPL_SOURCE\x01s/a/0/5/0\x02"


def message(properties: bytes) -> StoredMessage:
    return StoredMessage(5, 0, 0, 0, 0, 0, 0, b"\0\0\0\x01x", properties)


@pytest.mark.parametrize(
    ("source", "copy", "changed"),
    [
        (b"KEYS\x01k\x02", b"KEYS\x01k\x02UNIQ_KEY\x01AB\x02", False),
        (b"UNIQ_KEY\x01AB\x02", b"UNIQ_KEY\x01AB\x02", False),
        (b"UNIQ_KEY\x01AB\x02", b"UNIQ_KEY\x01CD\x02", True),
        (b"UNIQ_KEY\x01AB\x02", b"", True),
        (b"KEYS\x01k\x02", b"UNIQ_KEY\x01AB\x02", True),
    ],
)
def test_an_id_that_a_broker_gives_is_no_difference(source: bytes, copy: bytes, *, changed: bool) -> None:
    """Those of 5.x give one to what is sent singly without; no other may come, go or change."""
    kept = Kept.of_source(message(source), "s", topic="T")
    assert [kind for kind, _ in kept.changes(Kept.of_copy(message(PROVENANCE + copy)))] == ["properties"] * changed
