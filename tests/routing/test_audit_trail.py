"""How far a queue is verified: in order, whatever order segments are read back in, and over owners and losses."""

from __future__ import annotations

import msgspec
import pytest

from replicator.routing.audit_budget import AuditBudget
from replicator.routing.audit_segment import Difference, Segment
from replicator.routing.audit_trail import AuditTrail
from replicator.routing.offset_map import Interval, OffsetMap
from replicator.state.record_values import Audit
from tests.routing.test_audit_segment import MESSAGES, packs


@pytest.fixture
def budget() -> AuditBudget:
    budget = AuditBudget()
    budget.refill(0.0)
    budget.earn(10**6)
    return budget


@pytest.fixture
def trail(budget: AuditBudget) -> AuditTrail:
    trail = AuditTrail()
    trail.begin(1.0, budget, 0)
    return trail


def send(trail: AuditTrail, first: int, end: int, *, at: int | None = None, now: float = 0.0) -> None:
    """Copies of MESSAGES[first:end], to the same target offsets or those from `at` on."""
    trail.sent(packs(MESSAGES[first:end]), first if at is None else at, end, now)


def taken(trail: AuditTrail, now: float = 10.0) -> list[Segment]:
    """All that is to be read back now."""
    found = []
    while (segment := trail.take(now)) is not None:
        found.append(segment)
    return found


def test_a_segment_ends_after_a_moment(trail: AuditTrail, budget: AuditBudget) -> None:
    """Later where there is little to spend."""
    send(trail, 0, 3)
    send(trail, 3, 5, now=1.0)
    assert trail.take(2.0) is None
    (segment,) = taken(trail, 2.1)
    assert (segment.source, segment.source_end, segment.start, segment.end) == (0, 5, 0, 5)
    budget.spend(2000)
    send(trail, 5, 6, now=10.0)
    assert trail.take(39.0) is None
    assert len(taken(trail, 41.0)) == 1


def test_it_ends_with_many_messages_at_once(trail: AuditTrail, monkeypatch: pytest.MonkeyPatch) -> None:
    """And where somebody else has written in between."""
    monkeypatch.setattr("replicator.routing.audit_segment.SEGMENT", 10)
    send(trail, 0, 6)
    send(trail, 6, 12)
    send(trail, 12, 14)
    send(trail, 14, 16, at=20)
    assert [(each.start, each.end) for each in taken(trail, 0.0)] == [(0, 12), (12, 14)]
    assert [(each.source, each.source_end, each.start) for each in taken(trail)] == [(14, 16, 20)]


def test_verified_in_order(trail: AuditTrail) -> None:
    """What comes later waits for what comes before; the age is that of the oldest."""
    for first, at in ((0, 0), (10, 50), (20, 90)):
        send(trail, first, first + 10, at=at, now=float(first))
    one, two, three = taken(trail, 30.0)
    trail.conclude(three, 30.0)
    trail.conclude(two, 30.0)
    assert (trail.verified_to, trail.verified, trail.age(31.0)) == (0, 20, 31.0)
    trail.conclude(one, 30.0)
    assert (trail.verified_to, trail.verified, trail.age(31.0)) == (30, 30, 0.0)


def test_what_could_not_be_read_is_tried_again(trail: AuditTrail) -> None:
    """When it is due; nobody else takes it meanwhile."""
    send(trail, 0, 10)
    (segment,) = taken(trail)
    trail.retry(segment, 12.0)
    assert (trail.take(11.0), trail.take(12.0), segment.attempts) == (None, segment, 1)
    trail.conclude(segment, 12.0, unverified="retention")
    assert (trail.verified_to, trail.verified, trail.unverified) == (10, 0, {"retention": 10})
    assert taken(trail, 1000.0) == []


def test_it_is_read_again_each_minute(trail: AuditTrail) -> None:
    """Small segments that follow one another as one; what differs is not looked at again."""
    for number in range(4):
        send(trail, 10 * number, 10 * number + 10, now=3.0 * number)
        for segment in taken(trail, 3.0 * number + 2.5):
            trail.conclude(segment, 3.0 * number + 2.5)
    assert taken(trail, 60.0) == []
    (segment,) = taken(trail, 63.0)
    assert (segment.start, segment.end) == (0, 40)
    trail.retry(segment, 65.0)
    assert taken(trail, 64.0) == []
    assert taken(trail, 65.0) == [segment]
    trail.conclude(segment, 65.0)
    assert (taken(trail, 120.0), taken(trail, 125.0)) == ([], [segment])
    trail.conclude(segment, 125.0, differs=True)
    assert trail.is_idle
    assert (trail.verified, trail.verified_to) == (40, 40)


def test_only_so_many_are_kept(trail: AuditTrail, budget: AuditBudget) -> None:
    """The last ones."""
    budget.queues = 10_000
    for first in range(0, 40, 2):
        send(trail, first, first + 2, at=first * 3, now=0.0)
    for segment in taken(trail, 3.0):
        trail.conclude(segment, 3.0)
    assert [each.source for each in taken(trail, 70.0)] == [38, *range(22, 38, 2)]


@pytest.mark.parametrize(("share", "sampled"), [(1.0, 10), (0.5, 5), (0.1, 1)])
def test_samples(trail: AuditTrail, budget: AuditBudget, share: float, sampled: int) -> None:
    """A part of the segments; the others count."""
    trail.begin(share, budget, 0)
    for first in range(0, 40, 4):
        send(trail, first, first + 4, at=first * 3)
    found = taken(trail)
    assert len(found) == sampled
    for segment in found:
        trail.conclude(segment, 10.0)
    assert (trail.verified, trail.unverified.get("sampling", 0)) == (4 * sampled, 40 - 4 * sampled)
    assert trail.verified_to == 40


def test_nothing_is_sampled_without_a_budget(trail: AuditTrail, budget: AuditBudget) -> None:
    """Until something was earned."""
    budget.spend(3000)
    send(trail, 0, 10)
    assert taken(trail, 100.0) == []
    assert (trail.verified_to, trail.unverified) == (10, {"sampling": 10})
    budget.earn(10**6)
    send(trail, 10, 20)
    assert len(taken(trail, 100.0)) == 1


def test_a_loss_at_the_target(trail: AuditTrail, budget: AuditBudget) -> None:
    """What is copied again is audited again; what is being read of it no longer matters."""
    for first in (0, 10, 20):
        send(trail, first, first + 10, at=2 * first)
    one, two, three = taken(trail)
    trail.conclude(one, 10.0)
    trail.conclude(two, 10.0)
    trail.cut(15)
    assert (trail.verified_to, budget.waiting) == (15, 0)
    trail.conclude(three, 10.0)
    assert (trail.verified, trail.verified_to) == (20, 15)
    assert taken(trail, 100.0) == [one]
    send(trail, 15, 30, at=100, now=100.0)
    (again,) = taken(trail, 110.0)
    assert (again.source, again.source_end, again.start) == (15, 30, 100)


def test_what_a_loss_has_dropped_stays_dropped(trail: AuditTrail) -> None:
    """It is being read again when the target loses its copies, and once more a part of those that came instead."""
    send(trail, 0, 20)
    (segment,) = taken(trail)
    trail.conclude(segment, 10.0)
    assert taken(trail, 70.0) == [segment]
    trail.cut(10)
    send(trail, 10, 40, at=100, now=70.0)
    trail.cut(30)
    trail.conclude(segment, 71.0)
    assert segment not in taken(trail, 200.0)


def test_a_source_that_starts_over(trail: AuditTrail, budget: AuditBudget) -> None:
    """What was not verified never will be."""
    send(trail, 0, 10)
    trail.restart()
    assert (trail.verified_to, trail.unverified, trail.is_idle) == (None, {"reset": 10}, True)
    assert budget.waiting == 0
    send(trail, 2, 4, at=10)
    assert trail.verified_to == 2


def test_the_next_owner_goes_on(trail: AuditTrail, budget: AuditBudget) -> None:
    """It compares what was not verified, in segments, over holes in the source's offsets."""
    send(trail, 0, 10)
    (segment,) = taken(trail)
    trail.conclude(segment, 10.0)
    trail.differ([Difference("body", 3, 3, "x")])
    send(trail, 10, 20, now=11.0)
    trail.end()
    assert (budget.waiting, trail.is_idle) == (0, True)
    record = trail.record()
    assert record is not None
    later = AuditTrail()
    later.restore(record)
    later.begin(1.0, budget, 0)
    assert (later.verified_to, later.verified, later.differences) == (10, 10, {"body": 1})
    assert later.before == (10, {}, {"body": 1})
    offsets = OffsetMap([Interval(0, 0, 20), Interval(25, 20, 5), Interval(30, 40, 2)])
    later.found(offsets, 35, 45, 20.0)
    parts = [(each.source, each.source_end, each.start, each.end, each.beyond) for each in taken(later, 20.0)]
    assert parts == [(10, 30, 10, 25, 15), (30, 35, 40, 42, 3)]
    assert later.differ([Difference("body", 3, 3, "y")]) == []


def test_other_settings(trail: AuditTrail, budget: AuditBudget) -> None:
    """What was sent by others cannot be compared any more; it counts."""
    send(trail, 0, 10)
    (segment,) = taken(trail)
    trail.conclude(segment, 10.0)
    record = trail.record()
    assert record is not None
    later = AuditTrail()
    later.restore(record)
    later.begin(1.0, budget, 99)
    later.found(OffsetMap([Interval(0, 0, 20)]), 20, 20, 20.0)
    assert (later.verified_to, later.unverified, later.is_idle) == (20, {"settings": 10}, True)
    assert later.record() == {"to": 20, "rules": 99, "verified": 10, "unverified": {"settings": 10}}


def test_other_settings_and_an_owner_that_ends_before_its_check(trail: AuditTrail, budget: AuditBudget) -> None:
    """The next one still knows what cannot be compared."""
    send(trail, 0, 10)
    (segment,) = taken(trail)
    trail.conclude(segment, 10.0)
    record = trail.record()
    for _ in range(2):
        owner = AuditTrail()
        assert record is not None
        owner.restore(record)
        owner.begin(1.0, budget, 99)
        record = owner.record()
    owner.found(OffsetMap([Interval(0, 0, 20)]), 20, 20, 20.0)
    assert (owner.verified_to, owner.unverified) == (20, {"settings": 10})


def test_a_first_start_behind_copies(trail: AuditTrail) -> None:
    """What was copied before there was an audit is not claimed to be verified, nor counted."""
    trail.found(OffsetMap([Interval(0, 0, 20)]), 20, 20, 0.0)
    assert (trail.verified_to, trail.unverified, trail.is_idle) == (20, {}, True)


def test_too_much_to_go_on_with(trail: AuditTrail, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest is compared, the others count."""
    monkeypatch.setattr("replicator.routing.audit_segment.SEGMENT", 10)
    trail.verified_to = 0
    trail.found(OffsetMap([Interval(0, 0, 200)]), 200, 200, 0.0)
    assert (trail.unverified, trail.verified_to) == ({"takeover": 40}, 40)
    assert len(taken(trail)) == 16


def test_an_offset_map_that_has_dropped_its_oldest_runs(trail: AuditTrail) -> None:
    """What it no longer knows is compared by nobody, and counts; the audit goes on with what it knows."""
    trail.verified_to = 100
    offsets = OffsetMap([Interval(0, 0, 1), Interval(1000, 10, 5), Interval(1010, 15, 5)], most=2)
    trail.found(offsets, 1015, 20, 0.0)
    (segment,) = taken(trail)
    assert (segment.source, segment.source_end, segment.start, segment.end) == (1000, 1015, 10, 20)
    assert trail.unverified == {"takeover": 900}
    trail.conclude(segment, 10.0)
    assert trail.verified_to == 1015


def test_what_others_have_sent_is_passed_over(trail: AuditTrail) -> None:
    """The audit goes on after it."""
    trail.pass_over(19_000, 20_000, "backfill")
    trail.found(OffsetMap([Interval(0, 0, 1000), Interval(19_999, 19_000, 1)]), 20_000, 19_001, 0.0)
    assert (trail.verified_to, trail.unverified, trail.is_idle) == (20_000, {"backfill": 19_000}, True)


def test_a_single_send_is_compared_with_the_source(trail: AuditTrail) -> None:
    """It is a segment of its own, without a checksum."""
    send(trail, 0, 2)
    trail.sent(packs(MESSAGES[2:3]), 2, 3, 0.0, checkable=False)
    send(trail, 3, 5)
    assert [(each.start, each.end, each.checked) for each in taken(trail)] == [
        *((0, 2, True), (2, 3, False), (3, 5, True))
    ]


def test_nothing_to_record() -> None:
    """Of a queue that is not audited."""
    assert AuditTrail().record() is None


def test_what_was_verified_outlives_a_source_that_starts_over(trail: AuditTrail) -> None:
    """Though all of it was, and nothing else is known."""
    send(trail, 0, 10)
    (segment,) = taken(trail)
    trail.conclude(segment, 10.0)
    trail.restart()
    assert trail.record() == {"to": None, "rules": 0, "verified": 10}


def test_what_a_difference_says_fits_into_a_record(trail: AuditTrail) -> None:
    """Whoever may write the target topic chooses what provenance names; all else of the record must not be lost."""
    send(trail, 0, 3)
    broker = "a\x1b[2J\u202e" + "b" * 5_000
    trail.differ([Difference("misplaced", None, 2, f"a copy of {broker}/0/5")])
    record = trail.record()
    assert record is not None
    msgspec.convert(record, Audit)
    assert record["latest"][0][3].startswith("a copy of a [2J bbb")
