"""Rows give the messages back as pulls bring them, with compiled code and without."""

from __future__ import annotations

import pyarrow as pa
import pytest

from replicator.protocol.columns import take_apart
from replicator.protocol.message import StoredMessage, checksum
from replicator.protocol.uniform_run import COMPILED, UniformRun
from replicator.routing.queue_map import Queue
from replicator.spark.jobs import archive_rows
from replicator.spark.jobs.archive_rows import SCHEMA, batch_of, messages_of


def message(offset: int, body: bytes = b"body") -> StoredMessage:
    whole = len(body).to_bytes(4) + body
    raw = b"KEYS\x01k%d\x02MSG_REGION\x01a\x02MSG_REGION\x01a\x02" % offset
    return StoredMessage(offset, -5, 0x301, -1, 1_700_000_000_000 + offset, 3, checksum(body), whole, raw)


def rows(messages: list[StoredMessage]) -> pa.RecordBatch:
    return batch_of(Queue("a", 3), take_apart([messages]))


@pytest.mark.parametrize("compiled", [pytest.param(True, marks=pytest.mark.skipif(not COMPILED, reason="")), False])
def test_messages_come_in_runs_that_a_batch_can_take(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of a part of the rows; large ones are fewer at a time."""
    monkeypatch.setattr(archive_rows, "COMPILED", compiled)
    messages = [message(offset, b"b" * (offset % 7)) for offset in range(300)]
    found = [*messages_of(rows(messages).slice(5, 290))]
    assert [each for some in found for each in some] == messages[5:295]
    assert [len(some) for some in found] == [128, 128, 34]
    assert all(isinstance(some, UniformRun) is compiled for some in found)
    large = [message(offset, b"b" * 100_000) for offset in range(6)]
    found = [*messages_of(rows(large))]
    assert ([len(some) for some in found], [each for some in found for each in some]) == ([2, 2, 2], large)


@pytest.mark.parametrize("kind", [pa.large_binary(), pa.dictionary(pa.int32(), pa.binary())], ids=str)
@pytest.mark.parametrize("name", ["body", "rawProperties"])
def test_columns_of_another_width(name: str, kind: pa.DataType) -> None:
    """A file says itself how wide its columns are, and somebody else may have written it."""
    messages = [message(offset, b"b" * offset) for offset in range(3)]
    batch = rows(messages)
    at = SCHEMA.get_field_index(name)
    wide = batch.column(at).dictionary_encode() if pa.types.is_dictionary(kind) else batch.column(at).cast(kind)
    found = [*messages_of(batch.set_column(at, pa.field(name, wide.type), wide))]
    assert [each for some in found for each in some] == messages


@pytest.mark.parametrize("name", ["queueOffset", "body", "flag", "storeTimestamp"])
def test_a_row_that_lacks_something(name: str) -> None:
    """Somebody else has written it."""
    batch = rows([message(0), message(1)])
    at = SCHEMA.get_field_index(name)
    lacking = batch.set_column(at, SCHEMA.field(at), pa.array([None, None], type=SCHEMA.field(at).type))
    with pytest.raises(pa.ArrowInvalid, match="a row has no"):
        [*messages_of(lacking)]


@pytest.mark.skipif(not COMPILED, reason="nothing is put together")
def test_properties_that_no_message_can_have() -> None:
    batch = rows([message(0)])
    at = SCHEMA.get_field_index("rawProperties")
    lacking = batch.set_column(at, SCHEMA.field(at), pa.array([b"v" * 40_000], type=pa.binary()))
    with pytest.raises(pa.ArrowInvalid, match="too long"):
        [*messages_of(lacking)]
