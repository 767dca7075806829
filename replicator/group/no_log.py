"""The log of a worker that cannot reach the cluster whose log its group goes by: nothing comes, nothing goes."""

from __future__ import annotations

from replicator.errors import Unreachable

__all__ = ["NoLog"]


class NoLog:
    """Takes the place of `ControlLog` while the source is away."""

    caught_up = False

    async def write(self, topic: str, body: bytes, *, copies: int = 1) -> None:
        """Refuses.

        Raises:
            Unreachable: always.
        """
        raise Unreachable("the source", "this worker has not found it since its start")

    async def open(self, there: object) -> None:
        """There is nothing to open."""

    async def refresh(self) -> None:
        """There is nothing to look for."""

    def forget(self, broker: str) -> None:
        """It is on no broker."""

    async def close(self) -> None:
        """There is nothing to close."""
