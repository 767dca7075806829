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
        #: Called with what a worker says where leases are held, and until when it may send, by our clock.
        self.on_lease: Callable[[Heartbeat, float], None] = lambda _member, _until: None
        self._most = most
        #: The last of each process, until a heartbeat of our own has come back from there: only that tells its age.
        self._early: dict[tuple[MessageQueue, str], tuple[LogMessage, Heartbeat]] = {}
        self._echoed: set[MessageQueue] = set()

    def heard(self, said: LogMessage, heartbeat: Heartbeat) -> None:
        """A heartbeat of another worker on the target."""
        if said.queue in self._echoed:
            self._take(heartbeat, 0.0)
        else:
            self._early[said.queue, heartbeat.incarnation] = said, heartbeat

    def echoed(self, ours: LogMessage) -> None:
        """A heartbeat of our own has come back, which was written just now."""
        if ours.queue not in self._echoed:
            self._echoed.add(ours.queue)
            for said, heartbeat in self._early.values():
                if said.queue == ours.queue:
                    self._take(heartbeat, max(0.0, (ours.stored - said.stored) / 1000))
            self._early = {key: early for key, early in self._early.items() if key[0] != ours.queue}

    def _take(self, heartbeat: Heartbeat, age: float) -> None:
        member, seconds = _noticed(heartbeat)
        if (left := min(seconds, self._most) - age) > 0:
            self.on_lease(member, now() + left)


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
