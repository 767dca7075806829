"""What POP consumers hold comes out of the record as it was, as far as that has room for it."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from replicator.metadata import held_record as module
from replicator.metadata.held_record import held_queues, record_of
from replicator.metadata.offsets import GroupQueue
from replicator.state.record import Kind
from replicator.state.record_types import fit
from tests.metadata.test_offsets import place
from tests.metadata.test_redelivery_plan import holding


def read_back(*places: GroupQueue) -> list[GroupQueue]:
    """The places that others make of the record."""
    record = json.loads(json.dumps(record_of(places)))
    fit(Kind.SYNC, "route/in_flight", (1, "w1"), record, now=time.time())
    return [each.place(places[0].queue, places[0].target) for each in held_queues(record)]


def test_places_are_as_they_were() -> None:
    at = replace(holding(3, 5), acknowledged_after=5)
    assert read_back(at, place({i: i for i in range(10)}, 3, 3)) == [at]
    assert held_queues({}) == []


def test_a_queue_of_which_not_all_is_known() -> None:
    """It is in the record so that a failover says why it leaves the group before what it holds."""
    at = replace(holding(3), held=(), delivered=None, in_flight=2, acknowledged_after=4)
    assert read_back(at) == [at]


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a queue it has all messages that are held or none; and no more queues than it has room for."""
    monkeypatch.setattr(module, "_MESSAGES", 3)
    monkeypatch.setattr(module, "_QUEUES", 3)
    found = read_back(holding(1, 2), holding(3, 4), holding(5), holding(6))
    assert [len(each.held) for each in found] == [2, 0, 1]
    assert [each.in_flight for each in found] == [2, 2, 1]
    assert found[1].delivered is None


def test_what_is_not_known_now_stays_as_it_was() -> None:
    """A broker went away while it was asked: that its groups hold nothing is not known."""
    before = record_of([holding(3)])
    other = replace(holding(5), group="H")
    (kept, new) = record_of([other], before)["queues"]
    assert (kept["group"], kept["held"], new["group"], new["held"]) == ("G", [[3, 5000]], "H", [[5, 5000]])
    assert record_of([holding(4)], before) == record_of([holding(4)])
    nothing_now = replace(holding(3), in_flight=0, held=())
    assert record_of([nothing_now], before) == {"queues": []}
