"""Spark, as a worker has it: one job at a time, and the claims that its heartbeats make for the jobs' tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from replicator.runtime.bulk_lease import BulkLease
from replicator.runtime.group import Group
from replicator.settings import ClusterSettings, Settings

__all__ = ["Bulk", "Claim", "bulk_of"]

#: Of the session timeout, how long a heartbeat lets Spark's tasks send; less than the worker's own lease, since
#: they have to read that it came.
_LEASE: Final = 0.5


class Claim:
    """The right of a job's tasks to send, on behalf of `tasks` of the worker: it must own all of them still.

    It is `given_up` unless the job ends by itself.
    """

    def __init__(self, tasks: frozenset[str], lease: BulkLease) -> None:
        self.tasks = tasks
        self.lease = lease
        self.given_up = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """What jobs need; `master` is Spark's.

    `lease` makes that of a job by its name, None where the worker is in no group and Spark can do nothing for it;
    `announce` tells the group of all claims now; `runs` are what routes have under way, by the names of the routes.
    """

    master: str | None
    source: ClusterSettings
    target: ClusterSettings
    memory_bytes: int
    stall_seconds: float
    lease: Callable[[str], BulkLease] | None
    announce: Callable[[], Awaitable[None]]
    claims: dict[str, Claim] = field(default_factory=dict)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    runs: dict[str, dict[Any, Any]] = field(default_factory=dict)

    def claimed(self, running: Collection[str]) -> list[str]:
        """The jobs whose tasks may send, while `running` are the worker's own tasks."""
        return [job for job, claim in self.claims.items() if claim.tasks.issubset(running)]

    @asynccontextmanager
    async def claiming(self, job: str, tasks: frozenset[str]) -> AsyncIterator[Claim]:
        """A claim within the context; where it was given up, that ends only when no task of the job may send."""
        assert self.lease is not None  # noqa: S101 - without a group no job begins
        claim = self.claims[job] = Claim(tasks, self.lease(job))
        try:
            await self.announce()
            yield claim
        finally:
            self.claims.pop(job, None)
            if claim.given_up:
                await self.announce()
                await asyncio.sleep(claim.lease.seconds)


def bulk_of(settings: Settings, group: Callable[[], Group] | None, announce: Callable[[], Awaitable[None]]) -> Bulk:
    """That of a worker in `group`, which is there once the worker takes part in it; None: it is in none."""

    def lease(job: str) -> BulkLease:
        assert group is not None  # noqa: S101 - else nobody asks
        ours = group()
        return BulkLease(
            group=ours.name,
            worker=ours.coordinator.me,
            incarnation=ours.incarnation,
            job=job,
            topic=settings.source_online_topic,
            seconds=settings.session_timeout * _LEASE,
            patience=settings.session_timeout,
        )

    return Bulk(
        master=settings.spark_master,
        source=settings.source,
        target=settings.target,
        memory_bytes=settings.memory_bytes,
        stall_seconds=settings.stall_seconds,
        lease=None if group is None or settings.standalone else lease,
        announce=announce,
    )
