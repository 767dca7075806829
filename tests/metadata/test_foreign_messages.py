"""Whether somebody else has written to a topic: its last messages say it, each queue for itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from replicator.metadata import foreign_messages as under_test
from replicator.protocol import properties
from replicator.protocol.message import StoredMessage
from replicator.routing.provenance import Stamp

#: What the queues of the topic have, by who wrote it: this source, another one, or an application.
OURS, OTHERS, NOBODYS = "east", "north", ""


def _message(offset: int, writer: str) -> StoredMessage:
    def having(raw: bytes) -> StoredMessage:
        return StoredMessage(offset, 0, 0, 0, 0, 0, 0, bytes(4), raw)

    own = having(properties.encode({"KEYS": "k"}))
    return having(Stamp(writer, "a", 0).put([own])[0]) if writer else own


@pytest.mark.parametrize(
    ("queues", "foreign"),
    [
        ({}, False),
        ({0: []}, False),
        ({0: [OURS, OURS], 1: [OURS]}, False),
        ({0: [OURS], 1: [OURS, NOBODYS]}, True),
        ({0: [OTHERS], 1: []}, True),
        ({0: [NOBODYS, OURS, OURS, OURS]}, False),
    ],
    ids=["no queues", "empty", "copies", "an application's", "another source's", "too long ago"],
)
async def test_what_the_last_messages_are(
    queues: dict[int, list[str]], foreign: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def max_offset(_broker: object, topic: str, queue: int) -> int:
        assert topic == "orders"
        return len(queues[queue])

    async def read_range(_broker: object, _topic: str, queue: int, start: int) -> AsyncIterator[StoredMessage]:
        for offset, writer in enumerate(queues[queue][start:], start):
            yield _message(offset, writer)

    monkeypatch.setattr(under_test, "max_offset", max_offset)
    monkeypatch.setattr(under_test, "read_range", read_range)
    monkeypatch.setattr(under_test, "_LOOK_BACK", 3)
    broker: Any = None
    assert await under_test.has_foreign_messages(broker, "orders", queues, source=OURS) is foreign
