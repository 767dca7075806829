"""Places of groups that the offset map does not reach back to are looked up in the target queue itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from replicator.metadata import offset_map_scan, scanned_copies, target_ends
from replicator.metadata.group_positions import GroupPositions
from replicator.metadata.group_register import GroupRegister
from replicator.metadata.groups import GroupSelector
from replicator.metadata.offsets import CopiedQueue, GroupQueue, plan_offsets, standing
from replicator.routing.dispatch_barrier import DispatchBarrier
from replicator.routing.offset_map import OffsetMap
from replicator.routing.options import Identity
from replicator.routing.queue_map import Queue

SOURCE, TARGET = Queue("a", 0), Queue("x", 3)


@dataclass
class History:
    """A source queue, what was copied of it, and what a route knows of that.

    `source` are the ids of its messages, `there` those in the target queue with their source offsets; None is a
    message of somebody else's.
    """

    source: list[int] = field(default_factory=list)
    there: list[tuple[int, int] | None] = field(default_factory=list)
    offsets: OffsetMap = field(default_factory=OffsetMap)
    position: int = 0
    floor: int = 0
    made: int = 0
    read: int = 0

    def send(self, count: int) -> None:
        """Messages that are sent, and copied."""
        for _ in range(count):
            self.offsets.add(len(self.source), len(self.there), 1)
            self.there.append((len(self.source), self.made))
            self.source.append(self.made)
            self.made += 1
        self.position = len(self.source)

    def foreign(self, count: int) -> None:
        self.there += [None] * count

    def lose(self, count: int) -> None:
        """The source comes back without its last `count` messages; see `QueuePair`."""
        del self.source[max(0, len(self.source) - count) :]
        self.position, self.floor = len(self.source), len(self.there)
        self.offsets = OffsetMap()

    def forget(self, keep: int) -> None:
        """Of the offset map only the newest runs are kept."""
        self.offsets = OffsetMap(self.offsets, most=max(1, keep))

    def place(self, at: int, there: int | None) -> GroupQueue:
        queue = CopiedQueue(SOURCE, TARGET, "T", self.position, 0, self.offsets, self.floor)
        return GroupQueue("G", "T", queue, at, there)

    def settled(self, at: int, there: int | None) -> tuple[GroupQueue, int | None]:
        """The group's place, and where it is at the target once nothing more is to be done."""
        positions = no_brokers()
        for _ in range(1000):
            place = asyncio.run(positions._complete(self.place(at, there)))
            actions = [each for each in plan_offsets([place], live=()) if not each.blocked]
            if not actions:
                return place, there
            there = cast("dict[str, int]", actions[0].after)["offset"]
        raise AssertionError("it goes on for ever")


def no_brokers() -> GroupPositions:
    cluster = cast("Any", type("Cluster", (), {"master": lambda *_: None}))()
    register = cast("GroupRegister", Register())
    return GroupPositions(cluster, cluster, Identity("s", "t"), GroupSelector.of([".*"], []), register)


class Register:
    """Every name is a group, at both sides."""

    async def learn(self, _: object) -> None:
        pass

    def is_taken(self, _broker: str, _name: str) -> bool:
        return True


@pytest.fixture
def history_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[History], History]:
    """Makes the target queue that of a history."""
    return lambda history: shown(history, monkeypatch)


def shown(history: History, patch: pytest.MonkeyPatch) -> History:
    async def read_range(_: object, __: str, ___: int, start: int, stop: int) -> AsyncIterator[Any]:
        for offset in range(start, min(stop, len(history.there))):
            history.read += 1
            yield type("Message", (), {"queue_offset": offset})

    async def end(*_: object) -> int:
        return len(history.there)

    async def oldest(*_: object) -> int:
        return 0

    async def nothing(*_: object) -> None:
        return None

    def source(message: Any, *_: object) -> int | None:
        there = history.there[message.queue_offset]
        return None if there is None else there[0]

    patch.setattr(offset_map_scan, "read_range", read_range)
    patch.setattr(offset_map_scan, "_source", source)
    patch.setattr(target_ends, "max_offset", end)
    patch.setattr(target_ends, "min_offset", oldest)
    patch.setattr(DispatchBarrier, "caught_up", nothing)
    patch.setattr(GroupPositions, "_back", nothing)
    return history


@pytest.mark.parametrize("there", [60, 95])
def test_what_a_group_would_miss_is_counted_where_the_offset_map_does_not_reach(
    history_of: Callable[[History], History], there: int
) -> None:
    """It is ahead at the target, as when somebody has set it, or has consumed there."""
    history = history_of(History())
    for _ in range(50):  # each copy is a run of its own
        history.send(1)
        history.foreign(1)
    history.forget(5)
    place, _ = history.settled(10, there)
    assert (standing(place).exact, standing(place).missed) == (19, (there - 19) // 2)


def test_a_group_that_is_behind_stays_where_it_is_when_the_source_is_truncated(
    history_of: Callable[[History], History],
) -> None:
    """It has not read what the source still has; and it goes on with the source, over what that has lost."""
    history = history_of(History())
    history.send(100)
    history.lose(20)
    for _ in range(2):  # also once there are new copies
        place, there = history.settled(50, 50)
        assert there == 50
        assert standing(place).missed == 0
        assert history.settled(70, 50)[1] == 70
        history.send(10)
    assert history.settled(80, 50)[1] == 100
    assert history.settled(85, 50)[1] == 105


def test_one_that_was_moved_too_far_would_miss_messages(history_of: Callable[[History], History]) -> None:
    """It is not moved back unless forced, and it is said."""
    history = history_of(History())
    history.send(100)
    history.lose(20)
    history.send(5)
    place, there = history.settled(50, 100)
    assert there == 100
    assert standing(place).missed == 30
    (action,) = plan_offsets([place], live=())
    assert action.blocked


def test_a_recreated_queue_has_nothing_in_common(history_of: Callable[[History], History]) -> None:
    """Its first message is the first that the group reads."""
    history = history_of(History())
    history.send(100)
    history.lose(100)
    history.send(10)
    assert history.settled(0, 100)[1] == 100
    assert history.settled(4, 100)[1] == 104
    assert history.settled(0, None)[1] == 100


@pytest.mark.parametrize("most", [7, 1000])
def test_a_group_far_before_the_map_gets_there_bit_by_bit(
    history_of: Callable[[History], History], monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Of a long queue some is read at a time; what is not read does not count as messages of others."""
    monkeypatch.setattr(scanned_copies, "_MOST", most)
    history = history_of(History())
    for _ in range(30):
        history.send(3)
        history.source.append(-1)  # left out
        history.position += 1
    history.forget(2)
    positions = no_brokers()
    place = asyncio.run(positions._complete(history.place(100, 5)))
    assert standing(place).redelivered == 75 - 5
    assert standing(place).foreign is None
    assert history.settled(100, 5)[1] == 75
    assert standing(history.settled(100, 5)[0]).redelivered == 0


def test_what_the_map_forgets_is_read_once(history_of: Callable[[History], History]) -> None:
    """With each batch its oldest run goes, where others write between: on a group that nobody uses, it is read to
    there only.
    """
    history, positions = history_of(History()), no_brokers()

    def rounds(count: int) -> None:
        for _ in range(count):
            history.send(1)
            history.foreign(1)
        history.forget(10)

    rounds(500)
    for place in (history.place(3, 2), history.place(3, None)):
        asyncio.run(positions._complete(place))
    history.read = 0
    rounds(1)
    for there in (2, None):
        place = asyncio.run(positions._complete(history.place(3, there)))
        assert standing(place).exact == 5
    assert history.read == 2


def test_an_offset_behind_the_end_of_the_target_queue(history_of: Callable[[History], History]) -> None:
    """The topic was deleted there and recreated: all that would come before that offset would be skipped."""
    history = history_of(History())
    history.send(150)
    place = asyncio.run(no_brokers()._complete(history.place(150, 5000)))
    assert (place.end, standing(place).without_offset) == (150, True)
    assert history.settled(150, 5000)[1] == 150
    assert history.settled(120, 5000)[1] == 120
    history.foreign(20)  # it may have read these
    assert history.settled(150, 170)[1] == 170
    assert history.settled(150, 171)[1] == 150


def test_what_was_born_in_a_queue_that_is_no_more_says_nothing(
    history_of: Callable[[History], History], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not take a group to where nothing is."""
    history, known = history_of(History()), [0]

    async def back(*_: object) -> int:
        return known[0]

    monkeypatch.setattr(GroupPositions, "_back", back)
    history.send(150)
    history.foreign(20)
    for returned, wanted in ((4000, 150), (160, 160)):
        known[0] = returned
        assert history.settled(150, 5000)[1] == wanted


KINDS = ["send", "send", "lose", "foreign", "forget"]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 12)), min_size=1, max_size=8)


@settings(max_examples=200)
@example([("send", 2), ("lose", 1), ("foreign", 1)], [(0, None), (1, 0)])  # one of them is before the truncation
@given(STEPS, st.lists(st.tuples(st.integers(0, 60), st.none() | st.integers(0, 60)), min_size=1, max_size=3))
def test_what_is_kept_is_what_would_be_read(
    steps: list[tuple[str, int]], groups: list[tuple[int, int | None]]
) -> None:
    """However the map, and what the source has, change between two looks, and whatever other groups need."""

    async def check() -> None:
        for step, count in steps:
            getattr(history, step)(count)
            for at, there in groups:
                place = history.place(min(at, len(history.source)), there)
                looks = [await each._complete(place) for each in (positions, no_brokers())]
                kept, read = map(standing, looks)
                # What another group needs may reach back further than this one's offset: more can be counted.
                kept = kept._replace(missed=read.missed)
                if there is None:
                    kept = kept._replace(redelivered=read.redelivered)
                assert kept == read
            positions._forget_unused()

    with pytest.MonkeyPatch.context() as patch:
        history, positions = shown(History(), patch), no_brokers()
        asyncio.run(check())


@settings(max_examples=200)
@given(STEPS, st.integers(0, 60), st.none() | st.integers(0, 60), st.integers(1, 40))
def test_nothing_that_the_source_has_is_skipped(
    steps: list[tuple[str, int]], at: int, there: int | None, most: int
) -> None:
    """Whatever was lost, when: what a group has not read of the source is behind its place at the target."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanned_copies, "_MOST", most)
        history = shown(History(), patch)
        losses = 0
        for step, count in steps:
            losses += step == "lose"
            getattr(history, step)(count)
        at = min(at, len(history.source))
        unread = {made for offset, made in enumerate(history.source) if offset >= at}
        places = {each[1]: offset for offset, each in enumerate(history.there) if each is not None}
        first = min((places[each] for each in unread), default=len(history.there))
        there = None if there is None else min(there, first)
        _, now = history.settled(at, there)
        assert (0 if now is None else now) <= first
        assert there is None or (now is not None and now >= there)
        if losses < 2 and None not in history.there and now is not None and there is not None:
            read = {made for offset, made in enumerate(history.source) if offset < at}
            kept = {each[1] for each in history.there[now:] if each is not None}
            assert not read & kept, "it would read again what it has read"
