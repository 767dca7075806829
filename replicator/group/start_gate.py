"""When a worker's tasks may start: once the target has shown what was decided there, or will not. Pure; time is
handed in.
"""

from __future__ import annotations

from math import inf
from typing import Final

from replicator.errors import BrokerRefused, ReplicatorError
from replicator.protocol.codes import is_denied

__all__ = ["StartGate"]

#: Session timeouts without news after which tasks start although the target does not show what is mirrored there.
_PATIENCE: Final = 4.0
#: Session timeouts for which the target has to refuse us until tasks start without it. One refusal may pass: an
#: account is just being changed, or the only broker that answered does not know it yet.
_REFUSED: Final = 1.0


class StartGate:
    """Once open it stays open: running tasks do not stop because the target is away, or refuses us, later.

    Args:
        timeout: the session timeout, in seconds.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._news_at = inf
        self._refused_at = inf
        self._is_open = False

    def news(self, at: float) -> None:
        """The target was first tried, or has shown some more of what is to be read there."""
        self._news_at = at

    def failed(self, error: ReplicatorError, at: float) -> None:
        """Something could not be done there; it counts where the account lacks a right."""
        refused = next((each for each in (error, error.__cause__) if isinstance(each, BrokerRefused)), None)
        if refused is not None and is_denied(refused.code, refused.remark):
            self._refused_at = min(at, self._refused_at)

    def written(self) -> None:
        """The target has taken a message."""
        self._refused_at = inf

    @property
    def is_refused(self) -> bool:
        """Whether the target has refused us, and has taken no message since."""
        return self._refused_at < inf

    def is_open(self, at: float, *, was_read: bool) -> bool:
        """Whether tasks may start.

        Args:
            was_read: whether all was read that had to be.
        """
        silent = at - self._news_at > _PATIENCE * self._timeout
        refused = at - self._refused_at > _REFUSED * self._timeout
        self._is_open = self._is_open or was_read or silent or refused
        return self._is_open
