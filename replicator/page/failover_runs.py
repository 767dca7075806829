"""Failovers that were started on the page of this worker: their steps, and how they ended."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from structlog.contextvars import bound_contextvars

from replicator.admin.failover import FailoverOptions
from replicator.admin.failover_turn import NotNow
from replicator.errors import ReplicatorError
from replicator.observe.logging import get_logger
from replicator.observe.recent_events import Event, RecentEvents, recent_events

__all__ = ["FailoverRun", "FailoverRuns"]

#: Runs that are remembered once they have ended, and steps of one.
_KEPT: Final = 20
_STEPS: Final = 200

log = get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class FailoverRun:
    """One failover, or a dry run of one; `report` and `problem` are its end."""

    id: int
    connector: str
    how: FailoverOptions
    actor: str
    begun_at: float
    after: int
    ended_at: float = 0.0
    report: dict[str, Any] | None = None
    problem: ReplicatorError | None = None
    steps: list[Event] = field(default_factory=list)

    @property
    def going_on(self) -> bool:
        return not self.ended_at


class FailoverRuns:
    """Starts failovers, one of a connector at a time, and remembers the last ones.

    Args:
        events: where the steps are read from.
    """

    def __init__(self, events: RecentEvents = recent_events) -> None:
        self._events = events
        self._runs: list[FailoverRun] = []
        self._ids = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(
        self,
        connector: str,
        how: FailoverOptions,
        actor: str,
        fail_over: Callable[[], Awaitable[dict[str, Any]]],
    ) -> FailoverRun:
        """Starts `fail_over`, which goes on whether somebody looks or not.

        Raises:
            NotNow: one of the same connector is going on.
        """
        if any(run.connector == connector and run.going_on for run in self._runs):
            raise NotNow(f"a failover of connector {connector} is going on already", hint="wait for its end")
        run = FailoverRun(
            id=next(self._ids),
            connector=connector,
            how=how,
            actor=actor,
            begun_at=time.time(),
            after=self._events.last,
        )
        old = [each.id for each in self._runs if not each.going_on][_KEPT:]
        self._runs = [run, *(each for each in self._runs if each.id not in old)]
        task = asyncio.create_task(self._carry_out(run, fail_over), name=f"failover {run.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return run

    def of(self, connector: str) -> list[FailoverRun]:
        """Those of one connector, the newest first."""
        return [self.read(run) for run in self._runs if run.connector == connector]

    def get(self, number: int) -> FailoverRun | None:
        """The run with that number; None if nobody remembers it."""
        return next((self.read(run) for run in self._runs if run.id == number), None)

    def read(self, run: FailoverRun) -> FailoverRun:
        """The run with the steps that have come to it since."""
        if run.going_on:
            self._collect(run)
        return run

    def _collect(self, run: FailoverRun) -> None:
        for event in self._events.after(run.after):
            run.after = event.id
            if event.details.get("connector") == run.connector and len(run.steps) < _STEPS:
                run.steps.append(event)

    async def _carry_out(self, run: FailoverRun, fail_over: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        try:
            with bound_contextvars(actor=run.actor):
                run.report = await fail_over()
        except ReplicatorError as error:
            run.problem = error
            log.error("failover has failed", connector=run.connector, reason=str(error))
        except asyncio.CancelledError:
            run.problem = NotNow("the worker has ended meanwhile", hint="repeat the failover at another worker")
            log.error("failover interrupted: this worker is stopping", connector=run.connector)
            raise
        except Exception as error:
            run.problem = ReplicatorError(
                f"{type(error).__name__}: {error}", hint="this is a bug in the replicator: see the worker's log"
            )
            log.exception("failover has failed", connector=run.connector)
            raise
        finally:
            self._collect(run)
            run.ended_at = time.time()
            what = "dry run of a failover has ended" if run.how.dry_run else "failover has ended"
            log.info(what, connector=run.connector, actor=run.actor)
