"""A task of a connector plugin while it runs here: what source and sink tasks have in common."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from replicator.aio.backoff import Backoff
from replicator.aio.set_within import set_within
from replicator.errors import ReplicatorError
from replicator.observe.logging import get_logger
from replicator.plugins.interface import Position, TaskFailed
from replicator.routing.faults import LeaseLost, MessageRejected
from replicator.routing.state import Phase, QueueState
from replicator.state.encoding import storable
from replicator.state.record import Kind
from replicator.state.record_types import Misfit

__all__ = ["PluginTask"]

#: Seconds until a task that waits is tried again, and one that failed: the first time, and the most.
_WAITS: Final = (0.1, 5.0)
_FAILED: Final = (10.0, 300.0)

log = get_logger(__name__)
Found = TypeVar("Found")


class PluginTask(ABC):
    """Runs until drained or cancelled, whatever the plugin does.

    Args:
        name: `connector/task`.
        position: where to continue, as `position` returned it to the last owner.
        may_send: whether this worker holds its lease; asked before anything is written.
    """

    def __init__(self, name: str, position: Position | None, *, may_send: Callable[[], bool]) -> None:
        self.name = name
        self.position = position
        self.phase = Phase.STARTING
        self.states: list[QueueState] = []
        self._reason = ""
        self._may_send = may_send
        self._stopping = asyncio.Event()

    @property
    def copied(self) -> int:
        """Messages that went through since the task began here."""
        return sum(state.counters.copied for state in self.states)

    def drain(self) -> None:
        """What is under way is still settled, then `run` ends."""
        self._stopping.set()

    async def run(self) -> None:
        """Works, and tries again after errors: soon where something is away, late where a person is needed."""
        waiting, failed = Backoff(*_WAITS), Backoff(*_FAILED)
        while not self._stopping.is_set():
            before = self.position
            try:
                await self._work()
            except (TaskFailed, MessageRejected) as fault:
                self._stands_still(Phase.FAILED, str(fault))
            except (ReplicatorError, OSError) as fault:
                self._stands_still(Phase.WAITING, str(fault))
            except Exception as error:
                log.exception("plugin failed", task=self.name)
                self._stands_still(Phase.FAILED, f"{type(error).__name__}: {error}")
            if self.position != before:
                waiting.reset()
                failed.reset()
            await set_within(self._stopping, (failed if self.phase is Phase.FAILED else waiting).next())
        self.set_phase(Phase.STOPPED)

    @abstractmethod
    async def _work(self) -> None:
        """Makes the plugin's task and works until drained; raises whatever goes wrong."""

    def _storable(self, position: Position) -> Position:
        """`position` as the next owner gets it.

        Raises:
            TaskFailed: it cannot be kept.
        """
        try:
            value = storable(Kind.POSITION, self.name, {"position": position})
        except Misfit as error:
            raise TaskFailed(
                f"the plugin's position cannot be kept ({error.message})", hint="it is to be a small JSON object"
            ) from None
        kept: Position = value["position"]
        return kept

    def set_phase(self, phase: Phase, reason: str = "") -> None:
        """The phase of the task, and of all its queues."""
        if phase is Phase.RUNNING and self.phase in (Phase.WAITING, Phase.FAILED):
            log.info("running again", task=self.name, before=str(self.phase), reason=self._reason)
        self.phase, self._reason = phase, reason
        for state in self.states:
            state.set_phase(phase, reason)

    def _stands_still(self, phase: Phase, reason: str) -> None:
        if reason != self._reason:
            log.warning(phase.lower(), task=self.name, reason=reason)
        self.set_phase(phase, reason)

    def _refuse_without_lease(self) -> None:
        if not self._may_send():
            raise LeaseLost("this worker's lease has expired: others may own its tasks by now")

    async def _unless_stopped(self, work: Coroutine[Any, Any, Found]) -> Found | None:
        """What `work` gives; None, and `work` is cancelled, when the task is to end meanwhile."""
        working = asyncio.create_task(work)
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([working, stopped], return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            for each in (working, stopped):
                each.cancel()
            await asyncio.gather(working, stopped, return_exceptions=True)
