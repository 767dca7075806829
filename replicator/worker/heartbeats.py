"""The worker's heartbeats: parts with something that others must know report it with each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replicator import __version__
from replicator.aio.clock import now
from replicator.group.lease_notice import with_notice
from replicator.group.member import Group
from replicator.group.membership import MemberState
from replicator.group.mirror import Mirror
from replicator.group.other_log import SOURCE, STARTED
from replicator.worker.target_probe import TargetProbe

__all__ = ["Heartbeats"]


class Heartbeats:
    """Announces that the worker lives, what it does, and whether it reaches the target."""

    def __init__(
        self, group: Group, mirror: Mirror | None, probe: TargetProbe, *, source: str, rest_address: str
    ) -> None:
        self._group = group
        self._mirror = mirror
        self._probe = probe
        self._source = source
        self._rest_address = rest_address
        self._reports: dict[str, Callable[[], Any]] = {}

    def report(self, name: str, of: Callable[[], Any]) -> None:
        """From now on each heartbeat has what `of` gives, under `name`."""
        self._reports[name] = of

    async def beat(self) -> None:
        """Writes a heartbeat to the group's log now."""
        await self._group.beat(self._info(), target_reachable=self._probe.reachable)

    async def observe(self, stage: MemberState | None = None) -> None:
        """Writes one to the mirror at the target now.

        Args:
            stage: that of this worker, if its coordinator does not know better.
        """
        if self._mirror is not None:
            coordinator = self._group.coordinator
            info = with_notice(self._info(), self._group.last_said, coordinator.lease_left(now()))
            await self._mirror.beat(info, stage or coordinator.stage)

    def _info(self) -> dict[str, Any]:
        coordinator = self._group.coordinator
        return {
            "rest": self._rest_address,
            "version": __version__,
            "waiting_for": self._group.waiting_for,
            SOURCE: self._source,
            STARTED: self._mirror is None or self._mirror.started,
            "view": sorted([coordinator.me, *coordinator.membership.others]),
            **{name: report() for name, report in self._reports.items()},
        }
