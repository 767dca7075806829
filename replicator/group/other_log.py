"""Workers of one group that hold their leases on another cluster's log: two such groups would copy side by side.

Workers that coordinate at the source also say on the target's log that they are there, in a group of their own.
Whoever starts writes there and reads its own heartbeat back before it starts a task, and gives way to anybody whom
it finds before its own heartbeat. Who has started gives way to nobody but those that say that they have started,
too, which happens only if two start at the same time and their heartbeats lie in different orders on two brokers.
"""

from __future__ import annotations

from typing import Final, Literal

from replicator.errors import StartupError
from replicator.group.control_log import LogMessage
from replicator.group.membership import Heartbeat, MemberState
from replicator.routing.message_queue import MessageQueue

__all__ = ["SOURCE", "STARTED", "OtherLog", "mirror_of", "observers_of"]

#: Where a heartbeat's `info` says whether its worker takes part.
STARTED: Final = "started"
#: And the id of its source: another group may have the same name.
SOURCE: Final = "source"


def observers_of(group: str, source: str) -> str:
    """The group of the heartbeats on the target that no lease depends on; no group can be called so."""
    return f"{group}/observers of {source}"


def mirror_of(group: str, source: str) -> str:
    """The group of the records on the target that mirror those at the `source`; no group can be called so."""
    return f"{group}/mirror of {source}"


class OtherLog:
    """What is heard of workers of `group` that hold their leases elsewhere. Pure.

    Args:
        source: the id of its source cluster.
        timeout: seconds after which a silent worker has left.
        coordination: where this worker's own group holds its leases.
    """

    def __init__(self, group: str, source: str, timeout: float, coordination: Literal["source", "target"]) -> None:
        self._group = group
        self._source = source
        self._timeout = timeout
        self._coordination = coordination
        self._last: dict[str, tuple[Heartbeat, LogMessage]] = {}
        self._echoed: set[MessageQueue] = set()

    def heard(self, said: LogMessage, heartbeat: Heartbeat) -> StartupError | None:
        """A heartbeat of any worker; why this worker cannot take part, if that one lives and coordinates elsewhere.

        It may have our id: on its own log it is alone with it, as we are on ours.
        """
        is_other = heartbeat.info.get("coordination", "target") != self._coordination
        if not is_other or heartbeat.info.get(SOURCE, self._source) != self._source:
            return None
        if heartbeat.stage is MemberState.LEFT:
            self._last.pop(heartbeat.incarnation, None)
            return None
        recent = said.stored - self._timeout * 1000
        self._last = {key: last for key, last in self._last.items() if last[1].stored >= recent}
        self._last[heartbeat.incarnation] = heartbeat, said
        later = said.queue in self._echoed
        return self._conflict(heartbeat) if later and heartbeat.info.get(STARTED, True) else None

    def echoed(self, said: LogMessage) -> StartupError | None:
        """A heartbeat of our own has come back; why this worker cannot take part, if such a worker lives."""
        first = said.queue not in self._echoed
        self._echoed.add(said.queue)
        if not first:
            return None
        for heartbeat, earlier in self._last.values():
            if earlier.queue == said.queue and said.stored - earlier.stored <= self._timeout * 1000:
                return self._conflict(heartbeat)
        return None

    def _conflict(self, heartbeat: Heartbeat) -> StartupError:
        other = "target" if self._coordination == "source" else "source"
        return StartupError(
            f"coordination = {self._coordination!r}: worker {heartbeat.worker!r} of group {self._group!r} at"
            f" {heartbeat.info.get('rest', 'an unknown address')} coordinates at the {other}",
            hint="give all workers of a group the same coordination; stop all of them before you change it",
        )
