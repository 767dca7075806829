"""A worker's Spark jobs: one at a time, and the claims that its heartbeats announce for the jobs' tasks."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from replicator.aio.clock import now
from replicator.group.job_lease import JobLease
from replicator.group.member import Group
from replicator.ranges.auditor import StreamAuditor
from replicator.routing.options import Identity
from replicator.routing.seal import Sealer
from replicator.settings import Settings

if TYPE_CHECKING:  # a worker that has nothing for Spark to do does without
    from replicator.spark.resident.owner import Residents

__all__ = ["Bulk", "Claim"]

#: Of the session timeout, how long Spark tasks may send after a heartbeat; less than the worker's own lease, since
#: they have to read the heartbeat first.
_LEASE: Final = 0.5


class Claim:
    """The right of a job's tasks to send, on behalf of `tasks` of the worker, which must still own all of them.

    It is `given_up` unless the job ends on its own.
    """

    def __init__(self, tasks: Callable[[], Collection[str]], lease: JobLease) -> None:
        self.tasks = tasks
        self.lease = lease
        self.given_up = True


class Bulk:
    """What the jobs of a worker need.

    Only a worker in a group can have any. `turn` is held by the job that runs; `runs` are the routes' current runs,
    by the routes' names.

    Args:
        group: the worker's group.
        announce: sends a heartbeat with all claims now.
        identity, sealer: of the routes' copies.
        auditor: keeps what the audit of resident queues has found.
    """

    def __init__(
        self,
        settings: Settings,
        group: Group,
        announce: Callable[[], Awaitable[None]],
        *,
        identity: Identity,
        sealer: Sealer | None,
        auditor: StreamAuditor,
    ) -> None:
        self.settings = settings
        self._identity = identity
        self._sealer = sealer
        self._record = auditor.record
        self.turn = asyncio.Lock()
        self.runs: dict[str, dict[Any, Any]] = {}
        self._claims: dict[str, Claim] = {}
        self._group = group
        self._announce = announce

    @cached_property
    def residents(self) -> Residents:
        """The queues of this worker that live in Spark tasks."""
        from replicator.ranges.access import Access  # noqa: PLC0415 - only where it is wanted
        from replicator.spark.jobs.resident import ResidentJobs  # noqa: PLC0415
        from replicator.spark.resident.job import ResidentJob  # noqa: PLC0415
        from replicator.spark.resident.owner import Residents  # noqa: PLC0415

        settings, coordinator = self.settings, self._group.coordinator
        job = partial(
            ResidentJob,
            source=Access.of(settings.source),
            target=Access.of(settings.target),
            identity=self._identity,
            sealer=self._sealer,
            memory_bytes=settings.memory_bytes,
            settle_timeout=settings.settle_timeout,
            stall_timeout=settings.stall_timeout,
            patience=settings.stall_timeout,
            log_level=settings.log_level,
        )
        jobs = ResidentJobs(settings.spark_master)
        return Residents(jobs, job, lambda: coordinator.lease_left(now()), self._record, self._give_up_runs)

    @property
    def has_residents(self) -> bool:
        """Whether queues live in Spark's tasks. They keep its slots, for which a backfill would wait for ever."""
        return "residents" in self.__dict__ and self.residents.has_queues

    def _give_up_runs(self) -> None:
        for run in {run for runs in self.runs.values() for run in runs.values()}:
            run.give_up(run.waiting)

    def claimed(self, running: set[str]) -> list[str]:
        """The jobs whose tasks may send, while `running` are the worker's own tasks."""
        return [job for job, claim in self._claims.items() if running.issuperset(claim.tasks())]

    @asynccontextmanager
    async def claiming(self, tasks: Callable[[], Collection[str]]) -> AsyncIterator[Claim]:
        """A claim for a job; if it is given up, the context ends only when none of the job's tasks may send.

        Args:
            tasks: returns those that the job still works for.
        """
        job = uuid.uuid4().hex
        claim = self._claims[job] = Claim(tasks, self._lease(job))
        try:
            await self._announce()
            yield claim
        finally:
            del self._claims[job]
            if claim.given_up:
                await self._announce()
                await asyncio.sleep(claim.lease.seconds)

    def _lease(self, job: str) -> JobLease:
        settings, group = self.settings, self._group
        return JobLease(
            group=group.name,
            worker=group.coordinator.me,
            incarnation=group.incarnation,
            job=job,
            topic=settings.source_online_topic,
            coordination=settings.coordination,
            seconds=settings.session_timeout * _LEASE,
            patience=settings.session_timeout,
            signer=group.signer,
        )
