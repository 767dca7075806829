"""What workers say of their leases where no lease is held: in their heartbeats on the target.

Two workers may each reach another broker of the source, so that neither hears the other on the log of the leases,
while both go on sending to one target queue. Then they share its broker, and hear each other there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from replicator.aio.clock import now
from replicator.group.control_log import LogMessage
from replicator.group.membership import Generation, Heartbeat
from replicator.routing.message_queue import MessageQueue
from replicator.state.record_types import Count, Text, WorkerId

__all__ = ["LeaseNotices", "with_notice"]

#: Where a heartbeat's `info` has it.
_KEY: Final = "lease"
#: Seconds in which a heartbeat is stored, or not at all.
_WRITTEN: Final = 2.0


class _Notice(msgspec.Struct):
    """What the worker says in its group, and for how many seconds it may still send.

    Its heartbeats on the target are of an incarnation of their own.
    """

    incarnation: Text
    sequence: Count
    generation: tuple[Count, WorkerId]
    releasing: list[Text]
    seconds: float


def with_notice(info: Mapping[str, Any], member: Heartbeat, seconds: float) -> dict[str, Any]:
    """`info` of a heartbeat on the target, with what `member` says where leases are held.

    Args:
        seconds: for which it may still send; 0 or less if it may not.
    """
    notice = _Notice(
        member.incarnation, member.sequence, member.generation, sorted(member.releasing), max(0.0, seconds)
    )
    return {**info, _KEY: msgspec.to_builtins(notice)}


class LeaseNotices:
    """Those of the other workers.

    Args:
        most: seconds that a lease has at most.
    """

    def __init__(self, *, most: float) -> None:
        #: Called with what a worker says where leases are held, when it did, and until when it may send.
        self.on_lease: Callable[[Heartbeat, float, float], None] = lambda _member, _at, _until: None
        self._most = most
        #: What our clock shows when that of a queue's broker shows 0. Without it no age is known.
        self._clock: dict[MessageQueue, float] = {}
        #: The last of each process until then.
        self._early: dict[tuple[MessageQueue, str], tuple[LogMessage, Heartbeat]] = {}

    def heard(self, said: LogMessage, heartbeat: Heartbeat) -> None:
        """A heartbeat of another worker on the target, maybe read long after it was written."""
        if said.queue in self._clock:
            self._take(said, heartbeat)
        else:
            self._early[said.queue, heartbeat.incarnation] = said, heartbeat

    def echoed(self, ours: LogMessage, sent: float) -> None:
        """A heartbeat of our own has come back that was sent at `sent`."""
        self._clock[ours.queue] = min(now(), sent + _WRITTEN) - ours.stored / 1000
        for key in [key for key in self._early if key[0] == ours.queue]:
            self._take(*self._early.pop(key))

    def _take(self, said: LogMessage, heartbeat: Heartbeat) -> None:
        member, seconds = _noticed(heartbeat)
        at = min(now(), self._clock[said.queue] + said.stored / 1000)
        if (until := at + min(seconds, self._most)) > now():
            self.on_lease(member, at, until)


def _noticed(heartbeat: Heartbeat) -> tuple[Heartbeat, float]:
    """What a heartbeat on the target says of the group's, and for how many seconds its worker may still send.

    One that says nothing that can be read, as that of an earlier version, may not, for all that is known.
    """
    try:
        notice = msgspec.convert(heartbeat.info.get(_KEY), _Notice)
    except msgspec.ValidationError:
        return heartbeat, 0.0
    member = replace(
        heartbeat,
        incarnation=notice.incarnation,
        sequence=notice.sequence,
        generation=Generation(*notice.generation),
        releasing=frozenset(notice.releasing),
    )
    return member, notice.seconds
