"""Consumer offsets: translated exactly, never over what a group has not read, never backwards."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replicator.metadata.offsets import CopiedQueue, GroupQueue, plan_offsets, standing
from replicator.routing.offset_map import OffsetMap
from replicator.routing.queue_map import Queue

SOURCE, TARGET = Queue("a", 0), Queue("x", 3)


def place(
    copies: dict[int, int],
    source: int,
    target: int | None,
    *,
    position: int | None = None,
    start: int = 0,
    floor: int = 0,
    returned: int | None = None,
    found: int | None = None,
    ends: int | None = None,
) -> GroupQueue:
    """A group at `source` and `target`, where messages were copied as `copies` say: source to target offset."""
    offsets = OffsetMap()
    for at, to in copies.items():
        offsets.add(at, to, 1)
    end = 1 + max(copies, default=start - 1)
    copied = CopiedQueue(SOURCE, TARGET, "T", end if position is None else position, start, offsets, floor)
    return GroupQueue("G", "T", copied, source, target, found=found, returned=returned, end=ends)


def wanted(at: GroupQueue, **more: object) -> int | None:
    """Where the plan takes the group; None where it does nothing."""
    actions = [action for action in plan_offsets([at], live=(), **more) if not action.blocked]  # type: ignore[arg-type]
    return None if not actions else actions[0].after["offset"]  # type: ignore[index]


def test_a_group_goes_where_it_is_at_the_source() -> None:
    """In the middle, at the end, at the beginning; the target's offsets are its own."""
    copies = {i: 100 + i for i in range(10)}
    assert wanted(place(copies, 4, None)) == 104
    assert wanted(place(copies, 10, None)) == 110
    assert wanted(place(copies, 0, None)) == 100
    assert wanted(place(copies, 4, 104)) is None


def test_never_past_what_is_copied() -> None:
    """A group that is ahead of the copy waits at its end, and goes on with it."""
    at = place({i: i for i in range(5)}, 9, 2)
    assert wanted(at) == 5
    assert standing(at).not_copied == 4
    assert standing(at).redelivered == 3


def test_gaps_at_the_source() -> None:
    """What a filter left out makes no difference: the place is behind the last copy before it."""
    copies = {0: 0, 3: 1, 7: 2}
    assert [wanted(place(copies, at, None, position=12)) for at in (0, 1, 3, 4, 7, 8, 11)] == [0, 1, 1, 2, 2, 3, 3]


def test_nothing_copied_yet() -> None:
    """The oldest that the target has: all that will come is behind it."""
    assert wanted(place({}, 7, None, position=7, floor=0)) == 0
    assert wanted(place({}, 7, None, position=7, floor=12)) == 12


def test_a_copy_that_began_in_the_middle() -> None:
    """A group that is further back gets the first copy, and is told how many messages it will not see."""
    at = place({50: 0, 51: 1}, 20, None, start=50)
    assert wanted(at) == 0
    assert standing(at).before_start == 30
    assert "30 messages" in plan_offsets([at], live=())[0].note


def test_never_backwards_unless_forced() -> None:
    """It is told when copies would be missed; messages of the target's own do not count."""
    copies = {i: i for i in range(10)}
    back = place(copies, 4, 8)
    (action,) = plan_offsets([back], live=())
    assert "4 copies ahead" in action.blocked
    assert standing(back).missed == 4
    assert wanted(back, forced=["G"]) == 4
    assert plan_offsets([place(copies, 10, 15)], live=()) == []


def test_live_consumers_keep_their_offsets_unless_forced() -> None:
    """They would not notice what is written, or jump."""
    at = place({i: i for i in range(10)}, 4, 2)
    (action,) = plan_offsets([at], live=["G"])
    assert "has consumers at the target" in action.blocked
    (action,) = plan_offsets([at], live=["G"], forced=["G"])
    assert not action.blocked


def test_an_offset_behind_the_end_of_the_target_queue_is_taken_back() -> None:
    """There is nothing that would be read again; only consumers keep even that."""
    copies = {i: i for i in range(150)}
    at = place(copies, 150, 5000, ends=150)
    assert wanted(at) == 150
    assert wanted(place(copies, 120, 5000, ends=150)) == 120
    assert "behind the end of the queue, 150" in plan_offsets([at], live=())[0].note
    told = standing(place(copies, 120, 5000, ends=150))
    assert (told.without_offset, told.redelivered, told.missed) == (True, 0, 30)
    (action,) = plan_offsets([at], live=["G"])
    assert "has consumers at the target" in action.blocked


def test_a_place_that_is_behind_the_end_too_is_none() -> None:
    """What is known of the copies is older than the queue."""
    at = place({i: i for i in range(150)}, 150, 5000, ends=20)
    (action,) = plan_offsets([at], live=())
    assert "the queue ends at 20" in action.blocked


def test_messages_of_others_are_not_passed_unread() -> None:
    """The group stays before them; what it has read itself is behind it."""
    copies = {0: 0, 1: 1, 2: 3, 3: 4}  # offset 2 is somebody else's
    at = place(copies, 4, 1)
    assert wanted(at) == 2
    assert standing(at).foreign == 2
    assert wanted(place(copies, 4, 2)) is None
    assert wanted(place(copies, 4, 3)) == 5
    assert wanted(place(copies, 4, None)) == 5  # a group that is new at the target begins where it is
    assert wanted(at, forced=["G"]) == 5


def test_messages_that_came_from_the_target_are_known_there() -> None:
    """On the way back: what was born at the target is passed if it was read here, and no further."""
    copies = {3: 5, 4: 6}  # source 0..2 came from target 0..2; 3, 4 were born here; 3, 4 of the target never came
    assert wanted(place(copies, 2, 0, start=3, returned=2)) == 2
    assert wanted(place(copies, 5, 0, start=3, returned=3)) == 3
    assert standing(place(copies, 5, 0, start=3, returned=3)).foreign == 3
    joined = {3: 3, 4: 4}
    assert wanted(place(joined, 5, 0, start=3, returned=3)) == 5


def test_what_was_looked_up_wins() -> None:
    """Where the offset map does not reach back so far."""
    copies = {90: 90, 91: 91}
    assert wanted(place(copies, 40, None, found=40)) == 40


@given(
    st.lists(st.sampled_from(["copy", "left out", "foreign"]), max_size=40),
    st.integers(0, 40),
    st.none() | st.integers(0, 40),
    st.integers(0, 3),
)
def test_a_switch_reads_all_and_skips_nothing(history: list[str], at: int, there: int | None, rounds: int) -> None:
    """Whatever has happened: applied again and again it converges, moves on only, and passes no unread message."""
    copies: dict[int, int] = {}
    queue: list[int | None] = []  # the target queue: source offsets, None for others' messages
    source = 0
    for event in history:
        if event == "copy":
            copies[source] = len(queue)
            queue.append(source)
        if event == "foreign":
            queue.append(None)
        else:
            source += 1
    at = min(at, source)
    there = None if there is None else min(there, len(queue))
    begun = there
    for _ in range(rounds + 1):
        made = wanted(place(copies, at, there, position=source))
        if made is not None:
            assert there is None or made > there
            there = made
    assert wanted(place(copies, at, there, position=source)) is None
    if begun is not None and there is not None:
        assert all(message is not None and message < at for message in queue[begun:there])
    if begun is None and there is not None:
        assert [message for message in queue[there:] if message is not None] == [s for s in copies if s >= at]
    told = standing(place(copies, at, there, position=source))
    if there is not None:
        assert told.redelivered == sum(message is not None and message < at for message in queue[there:])
        assert told.missed == sum(message is not None and message >= at for message in queue[:there])
