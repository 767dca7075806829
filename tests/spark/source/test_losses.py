"""What `failOnDataLoss=false` leaves out is said, with its queue."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from replicator.routing.message_queue import MessageQueue
from replicator.spark.source import offsets
from replicator.spark.source.offsets import freeze
from replicator.spark.source.options import ReadOptions
from replicator.spark.source.stream import StreamReader
from tests.ranges.one_queue import OneQueue

QUEUE = MessageQueue("T", "a", 0)
GIVEN = {"nameServer": "a:9876", "topic": "T", "failOnDataLoss": "false"}


@pytest.mark.parametrize(
    ("start", "end", "lost"), [(0, 100, 70), (20, 50, 0), (0, 10, 10), (60, 100, 40), (40, 30, 0), (0, 60, 30)]
)
async def test_a_read_of_what_is_not_there(
    monkeypatch: pytest.MonkeyPatch, start: int, end: int, lost: int
) -> None:
    """The broker has the offsets 20 to 49."""

    async def queues(*_: object) -> list[MessageQueue]:
        return [QUEUE]

    monkeypatch.setattr(offsets, "_queues", queues)
    broker: Any = OneQueue(20, 50)
    at = '{"T":{"a":{"0":%d}}}'
    options = ReadOptions.of({**GIVEN, "startingOffsets": at % start, "endingOffsets": at % end})
    with capture_logs() as logs:
        await freeze(broker, options)
    assert [(line["queue"], line["count"]) for line in logs] == ([("T/a/0", lost)] if lost else [])


async def test_a_stream_whose_queue_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each micro-batch that does."""
    reader = StreamReader(ReadOptions.of({**GIVEN, "provenance": "true", "clusterId": "c"}, streaming=True))

    class Watch:
        async def oldest(self, queues: list[MessageQueue]) -> dict[MessageQueue, int]:
            return dict.fromkeys(queues, 0)

    monkeypatch.setattr(reader, "_connected", lambda: (OneQueue(0, 5), Watch()))
    gone = MessageQueue("T", "a", 1)
    with capture_logs() as logs:
        await reader._plan({QUEUE: 7, gone: 3}, {QUEUE: 5})
        await reader._plan({QUEUE: 5}, {QUEUE: 9})
    assert [(line["log_level"], line["reason"].partition(",")[0]) for line in logs] == [
        ("warning", "T/a/0 ends at offset 5"),
        ("warning", "T/a/1 is gone"),
    ]
