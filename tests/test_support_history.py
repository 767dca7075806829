"""The judge of histories sees every kind of damage, and sees none where there is none."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.history import (
    Change,
    Duplicate,
    Inversion,
    Lane,
    Message,
    Place,
    Verdict,
    check,
    digest,
    matched_by_keys,
)

BROKER, TARGET = "broker-a", "copy-a"


def source(*, queues: int = 3, each: int = 20) -> list[Message]:
    return [
        Message(
            Place(BROKER, queue, 100 + offset),
            digest(f"{queue}-{offset}".encode()),
            keys=f"k{queue}-{offset}",
            tags="TagA",
            flag=7,
            properties={"region": "north"},
        )
        for queue in range(queues)
        for offset in range(each)
    ]


def stored(messages: list[Message]) -> list[Message]:
    """Copies, stored in the order given: each queue's offsets count from 0."""
    heads: dict[Lane, int] = {}
    out = []
    for message in messages:
        lane = message.place.lane
        heads[lane] = heads.get(lane, -1) + 1
        out.append(replace(message, place=message.place._replace(offset=heads[lane])))
    return out


def copied(messages: list[Message]) -> list[Message]:
    return [
        replace(message, origin=message.place, place=message.place._replace(broker=TARGET)) for message in messages
    ]


def at(queue: int, offset: int, *, broker: str = BROKER) -> Place:
    return Place(broker, queue, offset)


def test_a_faithful_copy_is_clean() -> None:
    verdict = check(source(), stored(copied(source())))
    assert verdict.clean
    assert (verdict.sources, verdict.copies, verdict.surplus) == (60, 60, 0)
    assert verdict.report() == "60 messages at the source, 60 at the target"


def test_how_the_queues_were_read_one_after_another_does_not_matter() -> None:
    target = stored(copied(source()))
    random.Random(3).shuffle(target)
    assert check(source(), target).clean


def test_empty_topics_are_clean() -> None:
    assert check([], []).clean


def test_queues_may_be_numbered_otherwise_at_the_target() -> None:
    moved = [replace(m, place=m.place._replace(queue=m.place.queue + 8)) for m in stored(copied(source()))]
    assert check(source(), moved).clean


def test_a_lost_message_is_named() -> None:
    target = stored([m for m in copied(source()) if m.origin != at(1, 105)])
    assert check(source(), target) == Verdict(60, 59, lost=(at(1, 105),))


def test_the_last_message_of_a_queue_is_missed_too() -> None:
    target = stored(copied(source()))
    assert check(source(), target[:-1]).lost == (at(2, 119),)


def test_a_whole_lost_queue_is_seen() -> None:
    target = stored([m for m in copied(source()) if m.place.queue != 2])
    assert check(source(), target).lost == tuple(at(2, 100 + i) for i in range(20))


def test_a_duplicate_is_named_with_all_its_copies() -> None:
    target = copied(source(queues=1, each=4))
    target = stored([*target[:3], target[1], target[2], target[1], target[3]])
    verdict = check(source(queues=1, each=4), target)
    copies = [at(0, i, broker=TARGET) for i in range(7)]
    assert verdict.duplicated == (
        Duplicate(at(0, 101), (copies[1], copies[3], copies[5])),
        Duplicate(at(0, 102), (copies[2], copies[4])),
    )
    assert verdict.surplus == 3
    assert not verdict.clean
    assert verdict.at_least_once  # a repeated stretch is not an inversion: only first copies are in order


def test_which_copy_is_the_first_is_told_by_its_place_not_by_when_it_was_read() -> None:
    target = copied(source(queues=1, each=4))
    verdict = check(source(queues=1, each=4), reversed(stored([*target, target[1]])))
    assert verdict.surplus == 1
    assert verdict.at_least_once


def test_two_messages_that_changed_places_are_out_of_order() -> None:
    target = copied(source(queues=1, each=5))
    target[1], target[2] = target[2], target[1]
    verdict = check(source(queues=1, each=5), stored(target))
    assert verdict == Verdict(5, 5, out_of_order=(Inversion(at(0, 101), at(0, 2, broker=TARGET), at(0, 102)),))
    assert not verdict.at_least_once


def test_a_batch_that_came_late_is_out_of_order_message_by_message() -> None:
    target = copied(source(queues=1, each=6))
    target = stored([*target[:1], *target[3:], *target[1:3]])
    late = check(source(queues=1, each=6), target).out_of_order
    assert [found.origin for found in late] == [at(0, 101), at(0, 102)]
    assert {found.behind for found in late} == {at(0, 105)}


def test_a_second_copy_in_order_does_not_heal_the_first_one() -> None:
    target = copied(source(queues=1, each=3))
    verdict = check(source(queues=1, each=3), stored([target[1], target[0], target[1], target[2]]))
    assert [found.origin for found in verdict.out_of_order] == [at(0, 100)]


@pytest.mark.parametrize(
    ("damage", "part", "before", "after"),
    [
        (lambda m: replace(m, body=digest(b"other")), "body", digest(b"1-5"), digest(b"other")),
        (lambda m: replace(m, keys="other"), "keys", "k1-5", "other"),
        (lambda m: replace(m, tags=""), "tags", "TagA", ""),
        (lambda m: replace(m, flag=0), "flag", "7", "0"),
        (lambda m: replace(m, properties={"region": "south"}), "property region", "north", "south"),
        (lambda m: replace(m, properties={}), "property region", "north", None),
        (lambda m: replace(m, properties={"region": "north", "more": "x"}), "property more", None, "x"),
    ],
    ids=["body", "keys", "tags", "flag", "property value", "property lost", "property added"],
)
def test_a_changed_part_is_named(
    damage: Callable[[Message], Message], part: str, before: str | None, after: str | None
) -> None:
    target = stored(copied(source()))
    target[25] = damage(target[25])
    verdict = check(source(), target)
    change = Change(at(1, 105), at(1, 5, broker=TARGET), part, before, after)
    assert verdict == Verdict(60, 60, changed=(change,))
    assert not verdict.at_least_once


def test_a_change_in_the_second_copy_only_is_seen() -> None:
    target = copied(source(queues=1, each=2))
    verdict = check(source(queues=1, each=2), stored([*target, replace(target[1], body=digest(b"other"))]))
    assert [change.copy.offset for change in verdict.changed] == [2]


def test_properties_may_be_left_out_of_the_comparison() -> None:
    target = stored(copied(source()))
    target[0] = replace(target[0], properties={"region": "north", "REPL_ORIGIN": "x"})
    assert not check(source(), target).clean
    assert check(source(), target, ignore=lambda name: name.startswith("REPL_")).clean


def test_messages_of_unknown_origin_are_extra() -> None:
    target = copied(source(queues=1, each=3))
    foreign = replace(target[0], origin=None)
    ghost = replace(target[0], origin=at(0, 999))
    verdict = check(source(queues=1, each=3), stored([*target, foreign, ghost]))
    assert [m.place.offset for m in verdict.extra] == [3, 4]
    assert not verdict.clean


def test_a_queue_spread_over_two_is_split() -> None:
    target = copied(source(queues=1, each=4))
    target[3] = replace(target[3], place=target[3].place._replace(queue=1))
    verdict = check(source(queues=1, each=4), stored(target))
    assert verdict.split == {Lane(BROKER, 0): (Lane(TARGET, 0), Lane(TARGET, 1))}
    assert not verdict.mixed
    assert not verdict.clean


def test_two_queues_in_one_are_mixed() -> None:
    target = [replace(m, place=m.place._replace(queue=0)) for m in copied(source(queues=2, each=4))]
    verdict = check(source(queues=2, each=4), stored(target))
    assert verdict.mixed == {Lane(TARGET, 0): (Lane(BROKER, 0), Lane(BROKER, 1))}
    assert not verdict.split
    assert not verdict.out_of_order
    assert not verdict.clean


def test_brokers_with_the_same_queue_ids_are_told_apart() -> None:
    both = [*source(queues=1, each=3), *[
        replace(m, place=m.place._replace(broker="broker-b")) for m in source(queues=1, each=3)
    ]]  # fmt: skip
    copies = [replace(m, origin=m.place, place=Place(TARGET, int(m.place.broker == "broker-b"), 0)) for m in both]
    assert check(both, stored(copies)).clean
    assert check(both, stored(copies)[:-1]).lost == (Place("broker-b", 0, 102),)


def test_origins_found_by_keys_stand_in_for_provenance() -> None:
    target = [replace(m, origin=None) for m in stored(copied(source()))]
    assert check(source(), matched_by_keys(source(), target)).clean
    target[0] = replace(target[0], keys="unknown")
    verdict = check(source(), matched_by_keys(source(), target))
    assert verdict.lost == (at(0, 100),)
    assert len(verdict.extra) == 1


def test_keys_that_do_not_tell_messages_apart_are_refused() -> None:
    twice = [*source(), replace(source()[0], place=at(0, 500))]
    with pytest.raises(ValueError, match="does not tell messages apart"):
        matched_by_keys(twice, [])


def test_a_report_names_the_first_few_of_each_kind() -> None:
    report = check(source(), stored(copied(source()))[:1]).report()
    assert "lost: 59\n  broker-a/0@101\n" in report
    assert "… and 54 more" in report


@given(st.data())
def test_any_planted_damage_is_found(data: st.DataObject) -> None:
    originals = source(queues=2, each=8)
    target = copied(originals)
    index = data.draw(st.integers(0, len(target) - 1))
    kind = data.draw(st.sampled_from(["lose", "repeat", "swap", "change", "add"]))
    if kind == "lose":
        del target[index]
    elif kind == "repeat":
        target.insert(data.draw(st.integers(index, len(target))), target[index])
    elif kind == "swap":
        same = [i for i, m in enumerate(target) if m.place.queue == target[index].place.queue and i != index]
        other = data.draw(st.sampled_from(same))
        target[index], target[other] = target[other], target[index]
    elif kind == "change":
        target[index] = replace(target[index], body=digest(b"other"))
    else:
        target.insert(index, replace(target[index], origin=None))
    verdict = check(originals, stored(target))
    hits = {
        "lose": verdict.lost,
        "repeat": verdict.duplicated,
        "swap": verdict.out_of_order,
        "change": verdict.changed,
        "add": verdict.extra,
    }
    assert [name for name, found in hits.items() if found] == [kind]
    assert not verdict.clean
