"""Whether the recent part of a mirror says all that its group knows, or the whole topic has to be read. Pure.

Each publication of all state has a record of the group's clusters. But whoever has just started publishes it, too,
and may know as little as we do.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MirrorPast", "seconds_needed"]

#: Session timeouts before us in which other workers may have started that know nothing.
_PEERS: Final = 12.0


def seconds_needed(interval: float, timeout: float) -> float:
    """How much of the past has a publication that counts, where all state is published each `interval` seconds.

    Args:
        timeout: the session timeout, in seconds.
    """
    return max(2 * interval, interval + (_PEERS + 1) * timeout)


class MirrorPast:
    """What was read of the recent part.

    Args:
        timeout: the session timeout, in seconds.
    """

    def __init__(self, timeout: float) -> None:
        self._peers = _PEERS * timeout * 1000
        #: Per broker, in milliseconds by its clock.
        self._published: dict[str, int] = {}
        self._beaten: dict[str, int] = {}

    def published(self, broker: str, stored: int) -> None:
        """A record of the group's clusters was stored at a broker."""
        self._published[broker] = min(stored, self._published.get(broker, stored))

    def beaten(self, broker: str, stored: int) -> None:
        """A heartbeat of our own was stored at a broker."""
        self._beaten.setdefault(broker, stored)

    @property
    def is_known(self) -> bool:
        """Whether somebody has published all before we came, and not just before."""
        return any(self._beaten.get(broker, 0) - stored > self._peers for broker, stored in self._published.items())
