"""The tail of a target queue, read with and without seals, of a queue that a dictionary holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replicator.client import queue_range
from replicator.client.pull import Pulled
from replicator.protocol.codes import Response
from replicator.protocol.message import StoredMessage
from replicator.routing import recovery
from replicator.routing.provenance import ORIGIN, SOURCE, Provenance
from replicator.routing.recovery import CopyRecord, Tail, read_tail
from replicator.routing.seal import Extent, Sealer

SEALER = Sealer("a secret of the group, long enough", "west")


class TargetQueue:
    """Messages by their offset, and how many were read."""

    def __init__(self) -> None:
        self.messages: list[StoredMessage] = []
        self.read = 0

    @property
    def end(self) -> int:
        return len(self.messages)

    def batch(self, *sources: int, sealer: Sealer | None = SEALER) -> None:
        """Copies of the messages at these source offsets, as one batch."""
        seal = b""
        if sealer is not None:
            seal = sealer.seal("T", _source(sources[0]), Extent(sources[-1], len(sources), 1000 + max(sources)))
        for at in sources:
            self._add(ORIGIN + b"\x01east\x02" + SOURCE + b"\x01" + _source(at) + b"\x02" + seal)
            seal = b""

    def foreign(self, count: int = 1) -> None:
        for _ in range(count):
            self._add(b"KEYS\x01k\x02")

    def _add(self, raw: bytes) -> None:
        self.messages.append(StoredMessage(self.end, 0, 0, 0, 0, 0, 0, b"\x00\x00\x00\x00", raw))

    async def pull(self, _broker: object, _topic: str, _queue_id: int, offset: int) -> Pulled:
        shown = self.messages[offset : offset + 5]
        self.read += len(shown)
        code = Response.SUCCESS if shown else Response.PULL_NOT_FOUND
        return Pulled(code, "", shown, offset + len(shown), 0, self.end, 0)

    async def max_offset(self, *_place: object) -> int:
        return self.end


def _source(at: int) -> bytes:
    return b"east/east-a/3/%d/%d" % (at, 1000 + at)


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> TargetQueue:
    made = TargetQueue()
    monkeypatch.setattr(queue_range, "pull", made.pull)
    monkeypatch.setattr(recovery, "max_offset", made.max_offset)
    return made


def known(source: int, target: int) -> CopyRecord:
    return CopyRecord(source, 1000 + source, target)


async def tail_of(**how: Any) -> Tail:
    broker: Any = None
    mine: Callable[[Provenance], bool] = lambda found: found.queue_id == 3  # noqa: E731
    return await read_tail(broker, "T", 0, mine=mine, **{"known": None, "sealer": SEALER} | how)


def sources(tail: Tail) -> list[int]:
    return [copy.source for copy in tail.copies]


@pytest.mark.parametrize("sealer", [None, SEALER])
async def test_what_was_stored_behind_what_is_known(queue: TargetQueue, sealer: Sealer | None) -> None:
    """A batch whose answer was lost; others' messages behind it are counted once."""
    queue.batch(0, 1, 2)
    queue.foreign(2)
    queue.batch(3, 5)
    queue.foreign()
    tail = await tail_of(known=known(2, 2), counted=4, sealer=sealer)
    assert (tail.known_holds, tail.end, sources(tail), tail.foreign, tail.unsealed) == (True, 8, [3, 5], 2, 0)


async def test_forged_copies_behind_what_is_known(queue: TargetQueue) -> None:
    """They are foreign; what was sealed before and behind them counts."""
    queue.batch(0, 1, 2)
    queue.batch(90, sealer=None)
    queue.batch(3)
    queue.batch(95, sealer=Sealer("what somebody else has for a secret", "west"))
    tail = await tail_of(known=known(2, 2), counted=3)
    assert tail.known_holds
    assert tail.last == known(3, 4)
    assert (tail.end, tail.foreign, tail.unsealed, tail.duplicates) == (6, 2, 1, 0)
    assert not tail.recreated


async def test_what_is_known_ends_in_the_middle_of_a_batch(queue: TargetQueue) -> None:
    """A broker may have shown only a part of it then."""
    queue.batch(*range(50))
    queue.batch(50)
    queue.foreign()
    tail = await tail_of(known=known(20, 20), counted=21)
    assert tail.known_holds
    assert tail.last == known(50, 50)
    assert sources(tail)[-30:] == [*range(21, 51)]
    assert (tail.end, tail.foreign, tail.unsealed) == (52, 1, 0)


@pytest.mark.parametrize("sealer", [None, SEALER])
async def test_nothing_is_known(queue: TargetQueue, sealer: Sealer | None) -> None:
    """The last copy is searched for from the end; a large batch's seal stands far before its last message."""
    queue.batch(*range(300))
    queue.foreign(40)
    tail = await tail_of(sealer=sealer)
    assert tail.last == known(299, 299)
    assert (tail.end, tail.foreign, tail.known_holds) == (340, 0, False)


async def test_nothing_is_known_and_others_forge(queue: TargetQueue) -> None:
    """However much they write."""
    queue.batch(0, 1, 2)
    queue.batch(*range(500, 600), sealer=None)
    tail = await tail_of()
    assert tail.last == known(2, 2)
    assert (tail.end, tail.unsealed) == (103, 100)


async def test_nothing_was_ever_sealed(queue: TargetQueue) -> None:
    """All of it is doubted: the caller decides."""
    queue.batch(0, 1, 2, sealer=None)
    tail = await tail_of()
    assert tail.last is None
    assert (tail.end, tail.unsealed) == (3, 3)
