"""The columns of a read, and which of them are read; and the columns of a write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from replicator.errors import ConfigError

__all__ = ["READ", "ddl", "of_option", "of_schema", "refuse_unwritable"]

#: The columns of a read, with the names of their Spark types.
READ: Final = {
    "topic": "string",
    "brokerName": "string",
    "queueId": "int",
    "queueOffset": "bigint",
    "msgId": "string",
    "keys": "string",
    "tags": "string",
    "body": "binary",
    "properties": "map<string,string>",
    "bornTimestamp": "timestamp",
    "storeTimestamp": "timestamp",
    "flag": "int",
    "sysFlag": "int",
    "reconsumeTimes": "int",
}
#: Columns that can be written, with the names of their Spark types.
_WRITTEN: Final = {
    "body": ("binary", "string"),
    "topic": ("string",),
    "tags": ("string",),
    "keys": ("string",),
    "properties": ("map<string,string>",),
    "flag": ("int",),
    "brokerName": ("string",),
    "queueId": ("int",),
}
#: Columns of a read that only the broker sets.
_LEFT: Final = frozenset(READ) - frozenset(_WRITTEN)
#: Columns of a write to Kafka, and what they are here.
_KAFKAS: Final = {
    "value": "name it body",
    "key": "name it keys; the property __SHARDINGKEY keeps rows of one key in one queue",
    "headers": "make a map of it that is named properties",
    "partition": "brokerName and queueId name a queue",
}


def ddl(names: Iterable[str]) -> str:
    """The schema of a read of these columns, as Spark's DDL."""
    return ", ".join(f"{name} {READ[name]}" for name in names)


def of_option(given: str | None) -> tuple[str, ...]:
    """The columns that the option `columns` names, in their own order; all of them if it is not given.

    Raises:
        ConfigError: there is no such column.
    """
    if given is None:
        return tuple(READ)
    known = {name.lower(): name for name in READ}
    asked = [name.strip() for name in given.split(",") if name.strip()]
    unknown = [name for name in asked if name.lower() not in known]
    if unknown or not asked:
        raise ConfigError(f"columns = {given!r}", hint=f"give some of {', '.join(READ)}")
    chosen = {known[name.lower()] for name in asked}
    return tuple(name for name in READ if name in chosen)


def of_schema(schema: Any) -> tuple[str, ...]:
    """The columns of a read with a schema of the user's, or with that of the option.

    Raises:
        ConfigError: the schema has a column that a read does not have, or has with another type.
    """
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if field.name not in READ:
            raise ConfigError(f"a read has no column {field.name}", hint=f"there are {', '.join(READ)}")
        if kind != READ[field.name]:
            raise ConfigError(
                f"column {field.name} is {READ[field.name]}, not {kind}", hint="cast it after the read"
            )
    return tuple(schema.names)


def refuse_unwritable(schema: Any, *, topic: str | None) -> None:
    """Refuses columns that cannot be written, and rows without what a message needs.

    Args:
        topic: of all rows; None: the column has it.

    Raises:
        ConfigError: names the column, with a hint.
    """
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if field.name in _LEFT:
            continue
        if field.name not in _WRITTEN:
            hint = _KAFKAS.get(field.name, f"drop it; there are {', '.join(_WRITTEN)}")
            raise ConfigError(f"column {field.name} cannot be written", hint=hint)
        if kind not in _WRITTEN[field.name]:
            raise ConfigError(f"column {field.name} is {kind}", hint=f"cast it to {_WRITTEN[field.name][0]}")
    names = set(schema.names)
    if "body" not in names:
        raise ConfigError("there is no column body", hint="it is the message's content")
    if topic is None and "topic" not in names:
        raise ConfigError("neither an option nor a column names the topic", hint="give the option topic")
    if len(names & {"brokerName", "queueId"}) == 1:
        raise ConfigError("brokerName and queueId go together", hint="give both columns or neither")
