"""What one Arrow batch has, and what is said of messages that are not there any more."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from replicator.protocol.message import StoredMessage, checksum
from replicator.routing.queue_map import Queue
from replicator.spark.source import scan as under_test
from replicator.spark.source.offsets import Part
from replicator.spark.source.options import ReadOptions
from replicator.spark.source.scan import Partition, scan

#: 256 KiB that take 300 bytes compressed.
BODY = bytes(256 * 1024)
PART = Part("T", Queue("a", 0), 0, 100)


def message(offset: int) -> StoredMessage:
    body = zlib.compress(BODY)
    return StoredMessage(offset, 0, 0x301, 1, 1, 0, checksum(body), len(body).to_bytes(4) + body, b"")


class Reader:
    """Gives 100 messages with a body that is much smaller as it is stored."""

    gaps = 3

    def __init__(self, *_: object, **__: object) -> None:
        pass

    async def chunks(self) -> Any:
        for start in range(0, 100, 25):
            yield [message(offset) for offset in range(start, start + 25)]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The batches of a scan of these columns."""
    monkeypatch.setattr(under_test, "RangeReader", Reader)

    class Connected:
        async def __aenter__(self) -> None:
            return None

        async def __aexit__(self, *_: object) -> None:
            return None

    monkeypatch.setattr("replicator.ranges.access.Access.connected", lambda *_, **__: Connected())

    def batches(columns: str, **more: str) -> Sequence[Any]:
        given = ReadOptions.of({"nameServer": "s:1", "topic": "T", "columns": columns, **more})
        return [*scan(given, Partition(PART, "c"))]

    return batches


def test_a_batch_has_so_many_bytes_as_its_bodies_have_uncompressed(read: Any) -> None:
    found = read("queueOffset,body")
    assert [batch.num_rows for batch in found] == [32, 32, 32, 4]
    assert [offset for batch in found for offset in batch.column("queueOffset").to_pylist()] == [*range(100)]
    assert {body for batch in found for body in batch.column("body").to_pylist()} == {BODY}


def test_what_is_left_out_is_said(read: Any) -> None:
    with capture_logs() as logs:
        read("queueOffset", failOnDataLoss="false")
    (line,) = logs
    assert (line["log_level"], line["queue"], line["count"]) == ("warning", "T/a/0", 3)


def test_where_bodies_are_not_read_they_are_not_uncompressed(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "plain", lambda _: pytest.fail("it was"))
    assert [batch.num_rows for batch in read("queueOffset")] == [100]
