"""The memory that all queues of a worker share for messages under way.

A pull reserves what its answer may need; what arrived stays charged until the target has acknowledged
it. Who finds the budget spent waits in line. Head-of-line pulls that fill a hole are charged without
waiting, because the memory held after the hole is freed only by them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

__all__ = ["MemoryBudget"]


class MemoryBudget:
    """Counts bytes against `limit`.

    Args:
        limit: bytes; one reservation is always possible, whatever its size.
    """

    __slots__ = ("_granting", "_waiting", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._granting = False

    @property
    def spent(self) -> bool:
        """Whether nothing fits any more."""
        return self.used >= self.limit

    def reserve(self, size: int, granted: Callable[[], None]) -> bool:
        """Charges `size` bytes, now if there is room and no other task waits; else `granted` is called later.

        Returns:
            whether they are charged now.
        """
        if not self._waiting and self._fits(size):
            self.used += size
            return True
        self._waiting.append((size, granted))
        return False

    def charge(self, size: int) -> None:
        """Charges `size` bytes, room or not."""
        self.used += size

    def release(self, size: int) -> None:
        """Gives `size` bytes back, and grants what waits in line as far as there is room."""
        self.used -= size
        if self._granting:
            return  # by one that was just granted, as a task that has stopped does: the loop below continues
        self._granting = True
        try:
            while self._waiting and self._fits(self._waiting[0][0]):
                wanted, granted = self._waiting.popleft()
                self.used += wanted
                granted()
        finally:
            self._granting = False

    def _fits(self, size: int) -> bool:
        return self.used <= 0 or self.used + size <= self.limit
