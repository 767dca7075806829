"""A window: the messages of each queue between two offsets or two times."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from replicator.aio.bounded import bounded
from replicator.client.cluster import Cluster
from replicator.errors import ConfigError
from replicator.ranges.copy_job import Range
from replicator.settings import milliseconds
from replicator.spark.source.offsets import Limits, Part, within

__all__ = ["OffsetBound", "narrowed", "offset_bound"]

#: Concurrent requests.
_AT_ONCE: Final = 32


class OffsetBound(NamedTuple):
    """Where a window starts or ends: a queue offset, or a time in milliseconds since the epoch."""

    value: int
    is_time: bool


def offset_bound(option: str, text: str | None) -> OffsetBound | None:
    """The bound that was given as `option`.

    Raises:
        ConfigError: it is neither an offset nor a time.
    """
    if text is None:
        return None
    if text.isdecimal():
        return OffsetBound(int(text), is_time=False)
    try:
        return OffsetBound(milliseconds(text), is_time=True)
    except ValueError:
        raise ConfigError(
            f"{option} = {text!r} is neither a queue offset nor a time",
            hint="give a number, or an ISO 8601 time like 2026-01-31T06:00:00Z",
        ) from None


async def narrowed(
    source: Cluster, parts: list[Range], low: OffsetBound | None, high: OffsetBound | None
) -> list[Range]:
    """`parts` cut to [`low`, `high`); times are store times of the source.

    Raises:
        ConfigError: nothing lies between the two, whatever the source has.
    """
    if low is not None and high is not None and low.is_time == high.is_time and low.value >= high.value:
        raise ConfigError(
            "nothing lies between --from and --to: there would be nothing to compare",
            hint="give a --to that is after --from; what it names is itself left out",
        )

    def limits(*, is_time: bool) -> Limits:
        return Limits(*(None if at is None or at.is_time != is_time else at.value for at in (low, high)))

    offsets, times = limits(is_time=False), limits(is_time=True)

    async def one(part: Range) -> Range:
        whole = Part(part.topic, part.source, part.start, part.end)
        left = await within(source.reader(part.source.broker), whole, offsets, times)
        return msgspec.structs.replace(part, start=left.start, end=left.end)

    return await bounded(one, parts, at_once=_AT_ONCE)
