"""Values of records as JSON. What people and plugins have made is checked before it becomes a record. Pure.

One value that cannot be written would keep all others of its file from being written.
"""

from __future__ import annotations

from typing import Any

import msgspec

from replicator.errors import ConfigError
from replicator.state.record import Kind, Record, Version
from replicator.state.record_types import Misfit, fit

__all__ = ["connector_value", "encoded", "storable"]


def encoded(record: Record) -> bytes:
    """As a member of a JSON object."""
    value = msgspec.json.encode({"version": record.version, "value": record.value})
    return b"%b:%b" % (msgspec.json.encode(record.key), value)


def storable(kind: Kind, key: str, value: object) -> Any:
    """`value` as every worker reads it back.

    Raises:
        Misfit: it cannot be written, or others would leave it out.
    """
    try:
        plain = msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise Misfit(f"it cannot be written as JSON: {error}") from None
    return fit(kind, key, Version(0, ""), plain, now=0.0).value


def connector_value(name: str, value: object) -> Any:
    """As `storable`, of a connector.

    Raises:
        ConfigError: it cannot be kept.
    """
    try:
        return storable(Kind.CONNECTOR, name, value)
    except Misfit as error:
        raise ConfigError(
            f"the configuration of connector {name!r} cannot be kept ({error.message})",
            hint="give JSON that is not nested deeply, under names of up to 1000 characters",
        ) from None
