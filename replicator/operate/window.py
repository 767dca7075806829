"""A window: what lies in each queue between two offsets or two times."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from replicator.client.bounded import bounded
from replicator.client.brokers import offset_at
from replicator.client.cluster import Cluster
from replicator.errors import ConfigError
from replicator.settings import milliseconds
from replicator.spark.copying import Range

__all__ = ["Edge", "edge", "narrowed"]

#: Requests made at the same time.
_AT_ONCE: Final = 32


class Edge(NamedTuple):
    """Where a window begins or ends: a queue offset, or a time in milliseconds since the epoch."""

    value: int
    is_time: bool


def edge(option: str, text: str | None) -> Edge | None:
    """What was given as `option`.

    Raises:
        ConfigError: it is neither an offset nor a time.
    """
    if text is None:
        return None
    if text.isdecimal():
        return Edge(int(text), is_time=False)
    try:
        return Edge(milliseconds(text), is_time=True)
    except ValueError:
        raise ConfigError(
            f"{option} = {text!r} is neither a queue offset nor a time",
            hint="give a number, or an ISO 8601 time like 2026-01-31T06:00:00Z",
        ) from None


async def narrowed(source: Cluster, parts: list[Range], low: Edge | None, high: Edge | None) -> list[Range]:
    """What of `parts` lies from `low` on and before `high`; of times, by when the source stored the messages."""

    async def at(part: Range, wanted: Edge | None, default: int) -> int:
        if wanted is None:
            return default
        offset = wanted.value
        if wanted.is_time:
            reader = source.reader(part.source.broker)
            offset = await offset_at(reader, part.topic, part.source.queue_id, wanted.value)
        return min(max(offset, part.start), part.end)

    async def one(part: Range) -> Range:
        start, end = await at(part, low, part.start), await at(part, high, part.end)
        return msgspec.structs.replace(part, start=start, end=max(start, end))

    return await bounded(one, parts, at_once=_AT_ONCE)
