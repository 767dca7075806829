"""Offsets of groups in light message queues, lite topics among them, which are not carried over."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from replicator.client.offsets import OffsetTable
from replicator.client.system_topics import LIGHT_PREFIX
from replicator.observe.counted import counted

__all__ = ["said_of_light_queues"]


def said_of_light_queues(tables: Iterable[OffsetTable], selects: Callable[[str], bool]) -> list[str]:
    """What is to be said of selected groups that have such offsets, in one sentence; none where there are none.

    Brokers keep them under the names of the queues. Those of groups that are light queues themselves, as of MQTT's
    sessions, are in a table of their own.
    """
    found = sorted({key for table in tables for key in table.offsets if key[1].startswith(LIGHT_PREFIX)})
    found = [(group, queue) for group, queue in found if selects(group)]
    if not found:
        return []
    (group, queue), groups = found[0], {group for group, _ in found}
    of = f"offsets of {counted(len(groups), 'group')} in light message queues, of {group} in {queue} for example,"
    return [f"{of} are not carried over: consumers of these begin where they choose"]
