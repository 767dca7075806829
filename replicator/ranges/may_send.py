"""Whether a task may send now: its process was never suspended, and it has its job's lease, if there is one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

__all__ = ["MaySend"]

#: Seconds between two checks of a lease that was lost.
_POLL_INTERVAL: Final = 0.5


class MaySend:
    """The check.

    Args:
        was_awake: false for good once the process was suspended: another one may have been started in its place.
        lease: false while the heartbeats that allow the job to send do not come; None: it needs none.
    """

    def __init__(self, was_awake: Callable[[], bool], lease: Callable[[], bool] | None = None) -> None:
        self._was_awake = was_awake
        self._lease = lease
        #: How often the lease was found lost.
        self.losses = 0

    def __call__(self) -> bool:
        if self._lease is not None and not self._lease():
            self.losses += 1
            return False
        return self._was_awake()

    async def again(self, losses: int, seconds: float) -> bool:
        """Whether the lease was lost since there were `losses`, and comes back within `seconds`.

        It does where the brokers that have the heartbeats were away.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        lost = self.losses > losses
        while lost and self._was_awake() and clock() < until:
            if self():
                return True
            await asyncio.sleep(_POLL_INTERVAL)
        return False
