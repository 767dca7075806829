"""What is said of queues whose copies are not all there: never made, or deleted by the target's retention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from replicator.errors import ReplicatorError
from replicator.protocol.codes import Request
from replicator.protocol.frame import Frame
from replicator.ranges import reader
from replicator.ranges.comparer import Caveat, Compared, CompareJob, compare
from replicator.ranges.copy_job import Range
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.queue_map import Queue
from tests.ranges.one_queue import OneQueue


def copy_of(offset: int) -> bytes:
    return b"__RPL_ORIGIN\x01east\x02__RPL_SOURCE\x01east/a/0/%d/%d\x02" % (offset, 700 + offset)


class Target(OneQueue):
    """Has copies at the offsets of their messages, without `lost`, which are others'; its retention deletes what is
    before `later` once a pull has come to offset `at`.
    """

    def __init__(self, low: int, high: int, *, lost: range = range(0), at: int = 0, later: int = 0) -> None:
        super().__init__(low, high, properties=lambda offset: b"" if offset in lost else copy_of(offset))
        self._deletion = at, later

    def _answer(self, fields: Mapping[str, str]) -> Frame:
        at, later = self._deletion
        if later and int(fields["queueOffset"]) >= at:
            self.low = max(self.low, later)
        return super()._answer(fields)


async def compared(source: OneQueue, target: OneQueue, *, there: bool = True, **more: Any) -> Compared:
    sides: Any = {"source": source, "target": target}
    job = CompareJob(**sides, options=RouteOptions(identity=Identity("east", "west")), extra=False, **more)
    part = Range("T", Queue("a", 0), "T", Queue("b", 0), source.low, source.high)
    return await compare(job, part, there=there)


@pytest.mark.parametrize("there", [True, False])
async def test_a_queue_without_copies_is_not_taken_for_one_that_is_behind(*, there: bool) -> None:
    """Its target broker may be away, so that nobody knows where the copies are."""
    found = await compared(OneQueue(0, 40), Target(0, 0), there=there)
    assert (found.behind, found.counts, found.caveat) == (40, {}, Caveat.NO_COPIES)
    found = await compared(OneQueue(0, 40), Target(0, 0), there=there, complete=True)
    assert (found.counts, found.caveat) == ({"missing": 40}, Caveat.NO_COPIES)


async def test_nothing_is_to_be_said_of_a_queue_without_copies_that_needs_none() -> None:
    """There is nothing to copy; or the route has begun at its end."""
    assert (await compared(OneQueue(40, 40), Target(0, 0))).caveat is None
    assert (await compared(OneQueue(0, 40), Target(0, 0), from_first_copy=True)).caveat is None
    assert (await compared(OneQueue(0, 40), Target(0, 20))).caveat is None


@pytest.mark.parametrize("complete", [True, False])
async def test_what_retention_has_deleted_is_not_missing(*, complete: bool) -> None:
    """All of it, of a queue that nobody writes to any more."""
    found = await compared(OneQueue(0, 40), Target(40, 40), complete=complete)
    assert (found.behind, found.counts, found.caveat) == (40, {}, Caveat.DELETED)


@pytest.mark.parametrize("at", [0, 100, 160])
async def test_what_retention_deletes_meanwhile_is_not_missing(at: int) -> None:
    """Before it is read, or after. What is missing of the rest is."""
    found = await compared(OneQueue(0, 200), Target(0, 200, lost=range(170, 175), at=at, later=150), complete=True)
    assert (found.counts, found.caveat) == ({"missing": 5}, Caveat.DELETED)
    assert [each.source for each in found.findings] == [*range(170, 175)]


async def test_all_may_be_deleted_meanwhile() -> None:
    found = await compared(OneQueue(0, 200), Target(0, 200, at=0, later=200), complete=True)
    assert (found.counts, found.caveat) == ({}, Caveat.DELETED)


def shrinking(queue: OneQueue, high: int) -> OneQueue:
    """`queue`, which ends at `high` once it has said where it ends."""
    ask = queue.ask

    async def asked(code: int, fields: Mapping[str, str]) -> Frame:
        said = await ask(code, fields)
        if code == Request.GET_MAX_OFFSET:
            queue.high = high
        return said

    queue.ask = asked  # type: ignore[method-assign]
    return queue


async def test_a_target_that_has_become_shorter_lacks_its_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is not retention."""
    monkeypatch.setattr(reader, "PATIENCE", 0.1)
    found = await compared(OneQueue(0, 200), shrinking(Target(0, 200), 150), complete=True)
    assert (found.counts, found.caveat) == ({"missing": 50}, None)


async def test_a_source_that_has_become_shorter_cannot_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way out is one that there is for `verify`."""
    monkeypatch.setattr(reader, "PATIENCE", 0.1)
    with pytest.raises(ReplicatorError, match=r"T/a/0: the source queue ends at offset 150.*: run it again"):
        await compared(shrinking(OneQueue(0, 200), 150), Target(0, 200), complete=True)
