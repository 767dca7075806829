"""The worker's heartbeats: parts with something that others must know report it with each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replicator import __version__
from replicator.group.member import Group
from replicator.worker.target_probe import TargetProbe

__all__ = ["Heartbeats"]


class Heartbeats:
    """Announces that the worker lives, what it does, and whether it reaches the target."""

    def __init__(self, group: Group, probe: TargetProbe, *, rest_address: str) -> None:
        self._group = group
        self._probe = probe
        self._rest_address = rest_address
        self._reports: dict[str, Callable[[], Any]] = {}

    def report(self, name: str, of: Callable[[], Any]) -> None:
        """From now on each heartbeat has what `of` gives, under `name`."""
        self._reports[name] = of

    async def beat(self) -> None:
        """Writes a heartbeat now."""
        coordinator = self._group.coordinator
        await self._group.beat(
            {
                "rest": self._rest_address,
                "version": __version__,
                "waiting_for": self._group.waiting_for,
                "view": sorted([coordinator.me, *coordinator.membership.others]),
                **{name: report() for name, report in self._reports.items()},
            },
            target_reachable=self._probe.reachable,
        )
