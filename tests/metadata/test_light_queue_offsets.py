"""Offsets that are not carried over are said to be so."""

from __future__ import annotations

from replicator.client.offsets import OffsetTable
from replicator.metadata.light_queue_offsets import said_of_light_queues


def table(*keys: tuple[str, str]) -> OffsetTable:
    return OffsetTable({key: {0: 7} for key in keys}, b"")


def test_groups_are_counted_and_one_is_named() -> None:
    tables = [table(("g", "orders"), ("g", "%LMQ%$lite$a"), ("g", "%LMQ%$lite$b")), table(("f", "%LMQ%$lite$a"))]
    (said,) = said_of_light_queues(tables, lambda _: True)
    assert said.startswith("offsets of 2 groups in light message queues, of f in %LMQ%$lite$a for example, are not")
    (said,) = said_of_light_queues(tables, lambda group: group == "g")
    assert said.startswith("offsets of 1 group in light message queues, of g in %LMQ%$lite$a for example")
    assert said_of_light_queues(tables, lambda _: False) == []
    assert said_of_light_queues([table(("g", "orders"))], lambda _: True) == []
