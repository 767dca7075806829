"""How far the copy of one queue is, in offsets of both sides."""

from __future__ import annotations

from typing import NamedTuple

from replicator.routing.offset_map import OffsetMap
from replicator.routing.recovery import CopyRecord

__all__ = ["QueueProgress", "Seen"]


class Seen(NamedTuple):
    """A message of the source queue: its offset, and when the source stored it (ms)."""

    offset: int
    stored: int


class QueueProgress:
    """How far the copy of a queue is, in offsets of both sides."""

    __slots__ = (
        "abandoned",
        "clean",
        "head_timestamp",
        "known_end",
        "left_out",
        "max_offset",
        "offsets",
        "position",
        "read_to",
        "resumed",
        "seen",
        "skew",
        "start",
        "store_timestamp",
        "target_end",
        "target_floor",
    )

    def __init__(self) -> None:
        self.start: int | None = None
        """The source offset where the copy began."""

        self.resumed: int | None = None
        """The source offset where it went on after the source queue was truncated or recreated last; None: it was
        not. Copies of what lies before it are of another queue."""

        self.position: int | None = None
        """The next source offset that is not settled: all before it are acknowledged by the target, or left out for
        a reason that was counted."""

        self.abandoned = 0
        """Copies at a target queue that was given up, which are not counted as lost there yet."""

        self.clean = False
        """Whether nothing of ours can still be stored after `position`, so that the next owner may rely on it.
        False as soon as this owner may send."""

        self.offsets = OffsetMap()
        """Which source offset was stored at which target offset."""

        self.target_end: int | None = None
        """The next offset of the target queue if no other producer writes there; None: not read yet."""

        self.target_floor = 0
        """Copies below this target offset are of a source queue that no longer exists."""

        self.max_offset = 0
        """The source queue's end, as it was seen last."""

        self.known_end = 0
        """The source queue had messages up to here when it was pulled from, whatever became of them."""

        self.left_out: list[int] = []
        """Source offsets of the batch that was sent last which transforms have left out and nobody has counted."""

        self.read_to = 0
        """The source offset after all that was pulled."""

        self.seen: Seen | None = None
        """The last message before `position` that was read, if it is known: copied, or left out."""

        self.store_timestamp = 0
        """When the source stored the newest copied message; ms, by the source broker's clock."""

        self.head_timestamp = 0
        """When the source stored the oldest message that is on its way; 0: none is."""

        self.skew = 0.0
        """Seconds that the source broker's clock is ahead of ours."""

    @property
    def begin(self) -> int | None:
        """The first source offset of the copy as the source queue is now."""
        return self.start if self.resumed is None else self.resumed

    @property
    def lag(self) -> int:
        """Messages that the source has and the target has not."""
        return 0 if self.position is None else max(0, self.max_offset - self.position)

    @property
    def in_flight(self) -> int:
        """Messages pulled and not settled yet, by their offsets."""
        return 0 if self.position is None else max(0, self.read_to - self.position)

    @property
    def last(self) -> CopyRecord | None:
        """The last copy that the target acknowledged."""
        if self.offsets.last is None:
            return None
        source, target = self.offsets.last
        return CopyRecord(source, self.store_timestamp, target)

    def lag_seconds(self, now: float) -> float:
        """Age at `now` of the oldest message that is not at the target: 0 without a lag.

        Of the newest copied one while the oldest missing one is not known, and 0 while neither is.
        """
        stamp = self.head_timestamp or self.store_timestamp
        return max(0.0, now + self.skew - stamp / 1000) if self.lag and stamp else 0.0
