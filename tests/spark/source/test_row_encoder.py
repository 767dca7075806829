"""Rows as messages: properties to the byte, and what brokers could not keep is refused."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import ConfigError
from replicator.protocol import properties
from replicator.spark.source.property_column import MAP
from replicator.spark.source.row_encoder import rows_of

NAMES = st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "own", "ü", "CLUSTER", "TRACE_ON", ""])
TEXTS = st.sampled_from(["", "a b", "日本", "🙂"])
MAPS = st.none() | st.dictionaries(NAMES, TEXTS, max_size=5)
ROWS = st.lists(st.tuples(st.none() | TEXTS, st.none() | TEXTS, MAPS), max_size=5)


def batch_of(rows: list[tuple[Any, Any, Any]], **more: Any) -> pa.RecordBatch:
    tags, keys, told = zip(*rows, strict=True) if rows else ((), (), ())
    maps = [None if each is None else list(each.items()) for each in told]
    columns = {
        "body": pa.array([f"{i}" for i in range(len(rows))], type=pa.string()),
        "tags": pa.array(tags, type=pa.string()),
        "keys": pa.array(keys, type=pa.string()),
        "properties": pa.array(maps, type=MAP),
        **more,
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def wanted(tags: str | None, keys: str | None, told: dict[str, str] | None) -> bytes:
    """What one row's properties are, but for the value of a UNIQ_KEY that is made."""
    whole = dict(told or {}) | {name: text for name, text in (("TAGS", tags), ("KEYS", keys)) if text is not None}
    whole.setdefault("UNIQ_KEY", "made")
    return properties.encode({name: whole[name] for name in whole if name not in ("CLUSTER", "TRACE_ON")})


@given(ROWS, st.integers(0, 3))
def test_properties_are_those_of_map_and_columns(rows: list[tuple[Any, Any, Any]], first: int) -> None:
    """In the order of the map; also of a part of a batch."""
    made = rows_of(batch_of(rows).slice(first), "T")
    found = [
        re.sub(rb"UNIQ_KEY\x01[0-9A-F]{32}\x02", lambda _: b"UNIQ_KEY\x01made\x02", row.properties) for row in made
    ]
    assert found == [wanted(*row) for row in rows[first:]]
    assert [row.body for row in made] == [b"%d" % i for i in range(first, len(rows))]


def test_columns_that_are_missing_or_null() -> None:
    """A body will do, and a topic."""
    batch = pa.RecordBatch.from_arrays([pa.array([b"\xff"]), pa.nulls(1, pa.int32())], ["body", "flag"])
    (row,) = rows_of(batch, "T")
    assert (row.topic, row.body, row.flag, row.broker, row.queue_id) == ("T", b"\xff", 0, None, None)
    with pytest.raises(ConfigError, match="a row has no topic: give the option topic"):
        rows_of(batch, None)
    with pytest.raises(ConfigError, match="a row has no body: leave such rows out"):
        rows_of(batch_of([(None, None, None)], body=pa.nulls(1, pa.binary())), "T")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((None, None, {"k": None}), "property 'k' of a row is null: leave it out"),
        ((None, None, {"a": "", "k": "x\x02y"}), "property 'k' has the character 1 or 2 in it"),
        ((None, None, {"a": "", "k\x01": "x"}), r"property 'k\\x01' has the character 1 or 2 in it"),
        (("x\x01y", None, None), "property 'TAGS' has the character 1 or 2 in it"),
        ((None, "x\ny\x02", {"a": ""}), "property 'KEYS' has the character 1 or 2 in it"),
        (("x\x01y", None, {"TAGS": "z"}), "property 'TAGS' has the character 1 or 2 in it"),
        ((None, None, {"k": "x" * 32_750}), r"properties of a message have 32\d+ bytes: 32767 are possible"),
    ],
)
def test_what_brokers_could_not_keep(row: tuple[Any, Any, Any], message: str) -> None:
    """By its name, whatever the other rows have."""
    with pytest.raises(ConfigError, match=message):
        rows_of(batch_of([(None, None, {"a": "b"}), row, (None, None, None)]), "T")
