"""A group's place in a light queue is found by way of the message before it, wherever that and its copy are."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator.client.light_queue import LightMessage, LightPull
from replicator.client.offsets import OffsetTable
from replicator.errors import Unreachable
from replicator.metadata import light_queues
from replicator.metadata.light_queues import LightQueues
from replicator.metadata.offsets import CopiedQueue, GroupQueue, plan_offsets, standing
from replicator.protocol.message import StoredMessage
from replicator.routing.offset_map import OffsetMap
from replicator.routing.options import Identity
from replicator.routing.queue_map import Queue

NAME = "%LMQ%$parent$lite"
HOME, THERE = Queue("a", 2), Queue("x", 2)


def message(offset: int, at: int | None, copy_of: int | None) -> StoredMessage:
    properties = (
        b""
        if at is None
        else b"INNER_MULTI_DISPATCH\x01%b\x02INNER_MULTI_QUEUE_OFFSET\x01%d\x02"
        % (
            NAME.encode(),
            at,
        )
    )
    if copy_of is not None:
        properties += b"__RPL_ORIGIN\x01s\x02__RPL_SOURCE\x01s/a/2/%d/0\x02" % copy_of
    return StoredMessage(offset, 0, 0, 0, 0, 0, 0, b"\0\0\0\0", properties)


@dataclass
class Sides:
    """A queue of the source, its target, and a light queue that some of their messages are in.

    `source` says of each message of the queue whether it is in the light queue; `target` the same, and which
    message of the source it is a copy of: None for one that others wrote. `begin` is the light queue's first offset
    at the source, `known` where the offset map begins. At the target it was deleted after `deleted` messages.
    """

    source: list[bool] = field(default_factory=list)
    target: list[tuple[bool, int | None]] = field(default_factory=list)
    position: int = 0
    start: int = 0
    known: int = 0
    begin: int = 0
    homes: list[Queue] = field(default_factory=list)
    deleted: int = 0
    asked: int = 0
    away: bool = False

    def light(self, side: str) -> list[LightMessage]:
        found: list[tuple[int, int | None]]
        if side == "source":
            found = [(offset, None) for offset, light in enumerate(self.source) if light]
        else:
            found = [(offset, copy) for offset, (light, copy) in enumerate(self.target) if light][self.deleted :]
        return [LightMessage(at, "parent", 2, message(offset, at, copy)) for at, (offset, copy) in enumerate(found)]

    async def pull(self, side: str, name: str, offset: int, *, count: int = 32) -> LightPull:
        assert name == NAME
        if side == "source":
            self.asked += 1
            if self.away:
                raise Unreachable("a", "it is away")
        messages, begin = self.light(side), self.begin if side == "source" else 0
        if self.homes and side == "source":
            messages = [
                each._replace(queue_id=home.queue_id) for each, home in zip(messages, self.homes, strict=True)
            ]
        shown = messages[offset : offset + count] if offset >= begin else []
        return LightPull(shown, begin, len(messages))

    async def at(self, _side: str, topic: str, queue_id: int, offset: int) -> StoredMessage | None:
        assert (topic, queue_id) == ("parent", 2)
        if offset >= len(self.target):
            return None
        light, copy = self.target[offset]
        number = sum(each for each, _ in self.target[:offset])
        at = number - self.deleted if number >= self.deleted else number
        return message(offset, at if light else None, copy)

    @property
    def offsets(self) -> OffsetMap:
        found = OffsetMap()
        for offset, (_, copy) in enumerate(self.target):
            if copy is not None and copy >= self.known:
                found.add(copy, offset, 1)
        return found

    def copied(self, topic: str, queue: Queue) -> CopiedQueue | None:
        if topic != "parent":
            return None
        return CopiedQueue(HOME, THERE, "parent", self.position, self.start, self.offsets, 0)

    async def complete(self, place: GroupQueue) -> int:
        """Behind the last copy before it, as it is looked up in the target queue."""
        behind = [
            offset + 1 for offset, (_, copy) in enumerate(self.target) if copy is not None and copy < place.source
        ]
        return max(behind, default=0)

    def expected(self, at: int) -> int | None:
        """Behind the last copy before the group's place, before the first one if there is none.

        Of what the source has not any more only the copies are known.
        """
        copies = [(each.offset, self.target[each.message.queue_offset][1]) for each in self.light("target")]
        places = [each.message.queue_offset for each in self.light("source")]
        ours = [(offset, places.index(copy)) for offset, copy in copies if copy in places]
        before = [offset + 1 for offset, number in ours if self.begin <= number < at]
        behind = [offset for offset, number in ours if number >= max(at, self.begin)]
        if not before and not behind:
            return None
        return max(0, max(before, default=min(behind, default=0)) - max(0, self.begin - at))

    def read(self, at: int, now: int | None = None, *, queues: LightQueues | None = None) -> list[GroupQueue]:
        there = {} if now is None else {("g", NAME): {0: now}}
        return asyncio.run(
            (queues or self.queues()).read(
                {"a": OffsetTable({("g", NAME): {0: at}, ("g", "T"): {0: 3}}, b"")},
                {"x": OffsetTable(there, b"")},
                self.copied,
                {"g"},
                {},
            )
        )

    def queues(self) -> LightQueues:
        def side(which: str) -> Any:
            return type("Cluster", (), {"reader": lambda *_: which, "master": lambda *_: which})()

        return LightQueues(side("source"), side("target"), Identity("s", "t"), self.complete)


@pytest.fixture
def sides(monkeypatch: pytest.MonkeyPatch) -> Sides:
    return shown(Sides(), monkeypatch)


def shown(sides: Sides, patch: pytest.MonkeyPatch) -> Sides:
    patch.setattr(light_queues, "pull_light", sides.pull)
    patch.setattr(light_queues, "message_at", sides.at)
    return sides


def copied(sides: Sides, source: list[bool], *, foreign: tuple[int, ...] = ()) -> None:
    """All of it, after messages of others before the copies at `foreign`."""
    sides.source, sides.position = source, len(source)
    for offset, light in enumerate(source):
        sides.target += [(True, None)] * foreign.count(offset)
        sides.target.append((light, offset))


def test_a_place_between_copies(sides: Sides) -> None:
    copied(sides, [True, False] * 100)
    (place,) = sides.read(37)
    assert (place.group, place.topic, place.queue.target, place.queue.target_topic) == (
        "g",
        NAME,
        Queue("x", 0),
        NAME,
    )
    at_target = standing(place)
    assert (at_target.exact, at_target.offset, at_target.without_offset, at_target.not_copied) == (37, 37, True, 0)
    (action,) = plan_offsets([place], live=())
    assert action.after == {"offset": 37}
    assert not action.blocked


@given(
    source=st.lists(st.booleans(), min_size=1, max_size=60),
    left_out=st.sets(st.integers(0, 59)),
    foreign=st.lists(st.integers(0, 59), max_size=5),
    data=st.data(),
)
@settings(max_examples=300, deadline=None)
def test_it_is_behind_the_last_copy_before_it(
    source: list[bool], left_out: set[int], foreign: list[int], data: st.DataObject
) -> None:
    sides = Sides()
    with pytest.MonkeyPatch.context() as patch:
        shown(sides, patch)
        position = data.draw(st.integers(0, len(source)))
        sides.source, sides.position = source, position
        sides.start = data.draw(st.integers(0, position))
        sides.known = data.draw(st.integers(0, position)) if not foreign else 0
        for offset in range(sides.start, position):
            sides.target += [(True, None)] * foreign.count(offset)
            if offset not in left_out:
                sides.target.append((source[offset], offset))
        total = sum(source)
        sides.begin = data.draw(st.integers(0, total))
        at = data.draw(st.integers(0, total))
        places = sides.read(at)
        expected = sides.expected(at)
        if sides.begin == total or expected is None:
            assert places == []
        else:
            (place,) = places
            assert standing(place).exact == expected


def test_a_group_that_is_before_what_the_source_still_has(sides: Sides) -> None:
    """It would miss nothing that the target has."""
    copied(sides, [True, False] * 40)
    sides.begin = 30
    (place,) = sides.read(12)
    assert standing(place).exact == 12


def test_what_is_not_copied_yet_is_counted(sides: Sides) -> None:
    copied(sides, [True] * 40)
    sides.source, sides.position = [True] * 70, 40
    (place,) = sides.read(60)
    assert standing(place).exact == 40
    assert standing(place).not_copied == 20


def test_it_goes_over_copies_only(sides: Sides) -> None:
    """Not over what others have written to the target's light queue since then."""
    copied(sides, [True] * 40, foreign=(20,))
    (place,) = sides.read(30, 5)
    at_target = standing(place)
    assert (at_target.exact, at_target.offset, at_target.foreign) == (31, 20, 20)
    assert at_target.redelivered == 25
    (action,) = plan_offsets([place], live=())
    assert action.after == {"offset": 20}
    assert "foreign" in action.note


def test_a_group_that_is_ahead_would_miss_copies(sides: Sides) -> None:
    copied(sides, [True] * 40)
    (place,) = sides.read(10, 25)
    assert standing(place).missed == 15
    (action,) = plan_offsets([place], live=())
    assert "ahead" in action.blocked


def test_a_light_queue_that_began_anew_at_the_target(sides: Sides) -> None:
    copied(sides, [True] * 40)
    (place,) = sides.read(10, 500)
    (action,) = plan_offsets([place], live=())
    assert (action.after, action.blocked) == ({"offset": 10}, "")


def test_a_light_queue_that_was_deleted_at_the_target_with_its_offsets(sides: Sides) -> None:
    """Brokers delete lite topics in which nothing has come for long; copies from before say where they were."""
    copied(sides, [True] * 40)
    queues = sides.queues()
    (place,) = sides.read(30, queues=queues)
    assert [standing(each).exact for each in sides.read(30, 30, queues=queues)] == [30]
    sides.deleted = 39
    assert [standing(each).exact for each in sides.read(30, queues=queues)] == [0]
    sides.source += [True] * 3
    sides.target += [(True, 40), (True, 41), (True, 42)]
    sides.position = 43
    (place,) = sides.read(42, queues=queues)
    assert standing(place).exact == 3  # behind 39, 40 and 41


def test_nothing_is_asked_again_of_a_group_that_stands_still(sides: Sides) -> None:
    copied(sides, [True] * 40)
    queues = sides.queues()
    (before,) = sides.read(10, queues=queues)
    asked = sides.asked
    (after,) = sides.read(10, queues=queues)
    assert standing(after) == standing(before)
    assert sides.asked == asked


def test_what_was_known_of_a_source_that_is_away_counts(sides: Sides) -> None:
    copied(sides, [True] * 40)
    sides.source += [True] * 10
    queues = sides.queues()
    (before,) = sides.read(45, queues=queues)
    sides.away = True
    (after,) = sides.read(45, queues=queues)
    assert standing(after) == standing(before)
    assert queues.problems == []
    assert sides.read(46, queues=queues) == []
    (problem,) = queues.problems
    assert (
        "of g in %LMQ%$parent$lite for example, are not carried over: a cannot be reached (it is away)" in problem
    )


def test_one_that_is_filled_from_several_queues_is_named(sides: Sides) -> None:
    copied(sides, [True] * 40)
    sides.homes = [Queue("a", 2)] * 39 + [Queue("a", 1)]
    queues = sides.queues()
    assert sides.read(2, queues=queues) == []
    (problem,) = queues.problems
    assert problem.startswith("offsets of 1 group in light message queues")
    assert problem.endswith("its messages are in several queues, as parent/1 and parent/2")
    asked = sides.asked
    sides.read(2, queues=queues)
    assert (sides.asked, queues.problems) == (asked, [problem])


@pytest.mark.parametrize("there", [None, 40])
def test_one_whose_messages_have_all_expired_stays_where_it_is(sides: Sides, there: int | None) -> None:
    copied(sides, [True] * 40)
    sides.begin = 40
    queues = sides.queues()
    assert sides.read(40, there, queues=queues) == []
    assert len(queues.problems) == (there is None)


def test_those_of_topics_that_are_not_copied_are_asked_for_once(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(sides, [True] * 40)
    monkeypatch.setattr(Sides, "copied", lambda *_: None)
    queues = sides.queues()
    assert sides.read(7, queues=queues) == []
    asked = sides.asked
    assert sides.read(8, queues=queues) == []
    assert (sides.asked, queues.problems) == (asked, [])


def test_light_queues_that_become_one_are_named(sides: Sides) -> None:
    copied(sides, [True] * 40)
    queues = sides.queues()
    table = OffsetTable({("g", NAME): {0: 7}}, b"")
    places = asyncio.run(
        queues.read({"a": table, "b": table}, {"x": OffsetTable({}, b"")}, sides.copied, {"g"}, {})
    )
    assert places == []
    assert any("x all copies" in each for each in queues.problems)


def test_a_target_without_light_queues_is_named(sides: Sides) -> None:
    copied(sides, [True] * 40)
    sides.target = [(False, copy) for _, copy in sides.target]
    queues = sides.queues()
    assert sides.read(7, queues=queues) == []
    assert "into no light queue" in queues.problems[0]


def test_sessions_are_counted(sides: Sides) -> None:
    queues = sides.queues()
    tables = {"a": replace(OffsetTable({}, b""), sessions=3)}
    assert asyncio.run(queues.read(tables, {}, sides.copied, set(), {})) == []
    assert queues.problems[0].startswith("3 offsets of groups that are light message queues themselves")
