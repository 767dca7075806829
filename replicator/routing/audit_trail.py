"""The audit trail of one queue: what was sent, in segments with checksums, and how much of it was read back.

Pure: the sink task adds what the target has acknowledged, the auditor takes segments and says what became of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from replicator.observe.printable import one_line
from replicator.routing.audit_budget import AuditBudget
from replicator.routing.audit_counts import AuditCounts
from replicator.routing.audit_segment import Difference, Segment, segments_found
from replicator.routing.offset_map import OffsetMap
from replicator.routing.packing import Pack

__all__ = ["AuditTrail"]

#: Segments of what is found at the target at a start, at most; what is before is not audited.
_FOUND: Final = 16
#: Seconds after its first batch was sent at which a segment ends: while the budget allows it, and in any case.
_SOON: Final = 2.0
_LATE: Final = 30.0
#: Seconds after which what was read back is read again, to find what changes later.
_AGAIN: Final = 60.0
#: Differences whose places are remembered, so that none counts twice; and those that are shown.
_NAMED: Final = 1000
_LATEST: Final = 5
#: Characters of what is said of one: it names what messages say of themselves.
_DETAIL: Final = 300


class AuditTrail:
    """What was sent of one queue, and what of it is verified.

    Attributes:
        share: the part of the segments that is read back, at most; 0: the queue is not audited.
        verified_to: everything sent of source offsets before it was verified, or counts as unverified; None:
            nothing was sent yet.
        verified: messages that were read back and are as they were sent, or were named.
        unverified: messages that were not read back, by reason.
        differences: messages that differ, by kind.
        latest: the last ones of them.
        before: `verified`, `unverified` and `differences` as other owners or processes have left them.
        aged: `age` as the process says that audits the queue, where that is another one.
    """

    __slots__ = (
        "_again",
        "_budget",
        "_chain",
        "_kept",
        "_named",
        "_new_rules",
        "_open",
        "_rules",
        "_sampled",
        "_tail",
        "_waiting",
        "aged",
        "before",
        "differences",
        "latest",
        "share",
        "unverified",
        "verified",
        "verified_to",
    )

    def __init__(self) -> None:
        self.share = 0.0
        self.verified_to: int | None = None
        self.verified = 0
        self.unverified: dict[str, int] = {}
        self.differences: dict[str, int] = {}
        self.latest: deque[Difference] = deque(maxlen=_LATEST)
        self.before = AuditCounts(0, {}, {})
        self.aged = 0.0
        self._budget = AuditBudget()
        self._rules = self._new_rules = 0
        self._sampled = 0.0
        self._chain = 0
        self._open: Segment | None = None
        self._waiting: deque[Segment] = deque()
        self._kept: deque[Segment] = deque()
        self._tail: Segment | None = None
        self._again: set[Segment] = set()
        self._named: dict[tuple[str, int | None, int | None], None] = {}

    def begin(self, share: float, budget: AuditBudget, rules: int) -> None:
        """The queue is audited from now on.

        Args:
            rules: stands for the settings that say which messages are copied, and as what. What was sent under
                others and is not verified cannot be compared any more: `found` counts it.
        """
        self.share = share
        self._sampled = 1.0 - share  # so that the first one is read back
        self._budget = budget
        self._new_rules = rules

    # What was sent.

    def sent(
        self, packs: Sequence[Pack], target: int, position: int, now: float, *, checkable: bool = True
    ) -> None:
        """Adds what the target has stored from offset `target` on.

        Args:
            position: the source offset before which all is settled then.
            checkable: whether what the target stores has the checksum of the packs.
        """
        self._budget.earn(sum(map(len, packs)))
        segment = self._open
        if segment is None or segment.end != target or segment.checked != checkable:
            self._close()
            segment = self._begin(packs[0].offsets[0], target, now, checked=checkable)
        segment.add(packs, position)
        self._chain = segment.crc
        if segment.is_full:
            self._close()

    def reached(self, position: int) -> None:
        """All before the source offset `position` is settled: what was sent, and what was left out after it."""
        if (last := self._last) is not None:
            last.source_end = position
        elif self.verified_to is not None:
            self.verified_to = position

    def _begin(self, source: int, target: int, now: float, *, checked: bool) -> Segment:
        source = source if (reach := self._reach()) is None else reach
        if self.verified_to is None:
            self.verified_to = source
        sampled = self._samples()
        self._open = Segment(source, target, since=now, checked=checked, sampled=sampled, before=self._chain)
        return self._open

    def _samples(self) -> bool:
        """Whether the next segment is one of those that are read back."""
        if not self._budget.may_read:
            return False
        self._sampled += self.share
        if self._sampled < 1.0:
            return False
        self._sampled -= 1.0
        return True

    @property
    def _last(self) -> Segment | None:
        """The segment of what was sent last, unless all is verified."""
        if self._open is not None:
            return self._open
        return self._waiting[-1] if self._waiting else None

    def _reach(self) -> int | None:
        """The source offset where the next segment begins."""
        return self.verified_to if (last := self._last) is None else last.source_end

    def _close(self) -> None:
        segment, self._open = self._open, None
        if segment is None:
            return
        self._waiting.append(segment)
        if segment.sampled:
            self._budget.spend(segment.pulls)
            self._budget.waiting += 1
        else:
            self._finish(segment, "sampling")

    def found(self, offsets: OffsetMap, reach: int, end: int, now: float) -> None:
        """Takes from `offsets` what is at the target and not in the trail: what an earlier owner has sent, or what
        nobody was told of.

        Args:
            reach: the source offset before which all is settled.
            end: where the target queue ends.
        """
        self._close()
        begin, first = self._reach(), offsets.first
        if self._new_rules != self._rules:
            # Not before it is counted: whoever continues from a state that was saved until now counts it, too.
            self._rules = self._new_rules
            if begin is not None:
                self._count("settings", offsets.count_from(begin))
                begin = None
        if begin is None:
            self.verified_to = reach if len(offsets) else None
            return
        if first is not None and first.source > begin:
            # The map has dropped its oldest runs. How many copies there were is not known any more, but not more
            # than there are offsets.
            self._count("takeover", first.source - begin)
            begin = first.source
        made = segments_found(offsets, begin, now)
        if made:
            made[-1].source_end = max(made[-1].source_end, reach)
            made[-1].beyond = max(0, end - made[-1].end)
        for number, segment in enumerate(made, 1):
            self._waiting.append(segment)
            self._budget.waiting += 1
            if number <= len(made) - _FOUND:
                self._conclude(segment, "takeover")
            elif not self._samples():
                self._conclude(segment, "sampling")
            else:
                self._budget.spend(2 * segment.pulls)

    def pass_over(self, copies: int, position: int, reason: str) -> None:
        """So many copies of messages before the source offset `position` are not read back, for that reason; the
        audit goes on there. To be called while the queue is not audited.
        """
        self._count(reason, copies)
        self.verified_to = position

    def end(self) -> None:
        """This owner ends; the next one goes on from `verified_to`."""
        self._open = None
        self._drop(lambda _: True)

    def cut(self, source: int) -> None:
        """What was copied from the source offset `source` on is copied again."""
        self._close()
        self._drop(lambda segment: segment.source_end > source)
        if self.verified_to is not None:
            self.verified_to = min(self.verified_to, source)

    def restart(self) -> None:
        """The source queue has started over: what was sent cannot be compared with it any more."""
        self._close()
        for segment in self._waiting:
            if not segment.done:
                self._count("reset", len(segment))
        self._drop(lambda _: True)
        self.verified_to = None

    def _drop(self, which: Callable[[Segment], bool]) -> None:
        if self._tail is not None:
            self._kept.append(self._tail)
            self._tail = None
        for segment in (*self._waiting, *self._kept, *self._again):
            segment.dropped |= which(segment)  # one that is being read may have been dropped before
        self._budget.waiting -= sum(segment.dropped and not segment.done for segment in self._waiting)
        self._waiting = deque(segment for segment in self._waiting if not segment.dropped)
        self._kept = deque(segment for segment in self._kept if not segment.dropped)
        self._advance()

    # What is read back.

    def take(self, now: float) -> Segment | None:
        """A segment that is to be read back now: the oldest that was not yet, or one that was long ago."""
        if self._open is not None and now - self._open.since > (_SOON if self._budget.is_rich else _LATE):
            self._close()
        for segment in self._waiting:
            if not (segment.done or segment.reading) and segment.due <= now:
                segment.reading = True
                return segment
        return self._take_again(now)

    def _take_again(self, now: float) -> Segment | None:
        kept = self._kept
        if self._tail is not None and now - self._tail.since >= _AGAIN:
            kept.appendleft(self._tail)  # the next one: it is due, as nothing has followed it for so long
            self._tail = None
        if not kept or now - kept[0].since < _AGAIN or kept[0].due > now or not self._budget.is_rich:
            return None
        segment = kept.popleft()
        self._budget.spend(segment.pulls)
        segment.reading = True
        self._again.add(segment)
        return segment

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be read back, now or later."""
        return not (self._open or self._tail or self._waiting or self._kept)

    def retry(self, segment: Segment, due: float) -> None:
        """`segment` could not be read back: it is to be tried again at `due`."""
        segment.reading = False
        segment.attempts += 1
        segment.due = due
        if segment in self._again:
            self._again.discard(segment)
            if not segment.dropped:
                self._kept.appendleft(segment)

    def conclude(self, segment: Segment, now: float, *, unverified: str = "", differs: bool = False) -> None:
        """`segment` was read back.

        Args:
            unverified: why it could not be.
            differs: it was not as it was sent; that is not found again.
        """
        was_read = segment in self._again
        self._again.discard(segment)
        if segment.dropped:
            return
        segment.reading = False
        segment.since, segment.due = now, 0.0
        segment.attempts = segment.failures = segment.unshown = 0
        if not was_read:
            self._conclude(segment, unverified)
        if segment.checked and not (unverified or differs):
            if was_read:
                self._kept.append(segment)
            else:
                self._keep(segment)

    def _conclude(self, segment: Segment, unverified: str = "") -> None:
        self._budget.waiting -= 1
        self._finish(segment, unverified)

    def _finish(self, segment: Segment, unverified: str) -> None:
        segment.done = True
        if unverified:
            self._count(unverified, len(segment))
        else:
            self.verified += len(segment)
        self._advance()

    def _count(self, reason: str, messages: int) -> None:
        if messages:
            self.unverified[reason] = self.unverified.get(reason, 0) + messages

    def _advance(self) -> None:
        while self._waiting and self._waiting[0].done:
            self.verified_to = self._waiting.popleft().source_end

    def _keep(self, segment: Segment) -> None:
        if self._tail is not None:
            if self._tail.is_followed_by(segment):
                self._tail.extend(segment)
                return
            self._kept.append(self._tail)
        self._tail = segment
        while len(self._kept) > self._budget.kept:
            self._kept.popleft()  # the oldest: the last copies are remembered

    def differ(self, found: Iterable[Difference]) -> list[Difference]:
        """Counts those of `found` that were not known, and returns them."""
        new = []
        for named in found:
            each = named._replace(detail=one_line(named.detail[:_DETAIL]))  # or the record of it all would not fit
            key = each[:3]
            if key not in self._named:
                self._named[key] = None
                self.differences[each.kind] = self.differences.get(each.kind, 0) + 1
                self.latest.append(each)
                new.append(each)
        while len(self._named) > _NAMED:
            del self._named[next(iter(self._named))]
        return new

    # For people, and for the next owner.

    @property
    def counted(self) -> AuditCounts:
        """What was counted here: not what other owners or processes have left."""
        return self._counts().less(self.before)

    def count_on(self, counted: AuditCounts) -> None:
        """Of what the last owner has left, `counted` was counted here, before that."""
        self.before = self.before.less(counted)

    def _counts(self) -> AuditCounts:
        return AuditCounts(self.verified, dict(self.unverified), dict(self.differences))

    def age(self, now: float) -> float:
        """Seconds since the oldest message was sent that is not verified yet; 0 if all are."""
        oldest = self._waiting[0] if self._waiting else self._open
        return self.aged if oldest is None else max(0.0, now - oldest.since)

    def record(self) -> dict[str, Any] | None:
        """What outlives this owner, as JSON; None if there is nothing."""
        if self.verified_to is None and not (self.verified or self.unverified or self.differences):
            return None
        return {
            "to": self.verified_to,
            "rules": self._rules,
            "verified": self.verified,
            **({"unverified": dict(self.unverified)} if self.unverified else {}),
            **({"differences": dict(self.differences)} if self.differences else {}),
            **({"latest": [list(each) for each in self.latest]} if self.latest else {}),
        }

    def restore(self, record: Mapping[str, Any]) -> None:
        """Goes on from the `record` of the last owner: before `begin`, or in a trail that only shows what another
        process audits.
        """
        self.verified_to = record["to"]
        self._rules = record["rules"]
        self.verified = record["verified"]
        self.unverified = dict(record.get("unverified", {}))
        self.differences = dict(record.get("differences", {}))
        self.before = self._counts()
        for each in record.get("latest", ()):
            self.latest.append(Difference(*each))
            self._named[Difference(*each)[:3]] = None
