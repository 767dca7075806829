"""Which columns there are: by an option, by a schema, and of rows that are written."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark.sql.types import BinaryType, StringType, StructType

from replicator.errors import ConfigError
from replicator.spark.source.rows import columns
from replicator.spark.source.schema import READ, ddl, of_option, of_schema, refuse_unwritable


def _field(name: str, kind: str) -> SimpleNamespace:
    return SimpleNamespace(name=name, dataType=SimpleNamespace(simpleString=lambda: kind))


def test_all_columns_unless_some_are_asked_for() -> None:
    """In their own order, with their own names."""
    import pyarrow as pa

    assert of_option(None) == tuple(READ) == tuple(columns(pa.timestamp("us")).names)
    assert ddl(of_option(" Properties,queueoffset ,")) == "queueOffset bigint, properties map<string,string>"
    for wrong in ("", ",", "body,offset"):
        with pytest.raises(ConfigError, match=f"columns = '{wrong}': give some of topic, brokerName"):
            of_option(wrong)


def test_a_schema_chooses_columns_too() -> None:
    """In its order."""
    assert of_schema(StructType().add("keys", StringType()).add("body", BinaryType())) == ("keys", "body")
    with pytest.raises(ConfigError, match="a read has no column key"):
        of_schema(StructType().add("key", StringType()))
    with pytest.raises(ConfigError, match="column body is binary, not string: cast it after the read"):
        of_schema(StructType().add("body", StringType()))


def test_what_a_read_gives_can_be_written() -> None:
    """Though brokers set some of it."""
    read = SimpleNamespace(names=[*READ], fields=[_field(*each) for each in READ.items()])
    refuse_unwritable(read, topic=None)
