"""The metadata task of a route: one worker of the group keeps the target's metadata in step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from structlog.contextvars import bound_contextvars

from replicator.aio.schedule import Schedule
from replicator.aio.slices import in_slices
from replicator.client.look import meets_silence
from replicator.connector.context import ConnectorContext
from replicator.connector.sync.acl import KIND, AclSync, Done, Step
from replicator.connector.sync.copied_queues import CopiedQueues
from replicator.connector.sync.ledger import SyncLedger
from replicator.connector.sync.options import sync_options
from replicator.connector.sync.plan import SyncPlan, as_it_was
from replicator.connector.sync.possible_actions import each_possible, would_apply
from replicator.connector.sync.redelivery import Redelivery
from replicator.connector.sync.report import SyncReport
from replicator.connector.sync.synced_offsets import synced_offsets
from replicator.connector.topics import RouteTopics
from replicator.errors import ClientError, ProtocolError, ReplicatorError, StartupError
from replicator.metadata.action import Action, Unasked
from replicator.metadata.group_standings import group_standings
from replicator.metadata.held_record import HeldQueue, held_queues, record_of
from replicator.metadata.ledger import Planned
from replicator.metadata.offsets import GroupQueue, standing
from replicator.metadata.syncer import Applied, Syncer
from replicator.observe.logging import get_logger
from replicator.routing.state import Phase
from replicator.routing.task_id import METADATA, TaskId
from replicator.settings import RouteSettings

__all__ = ["SyncTask"]

#: Seconds between checks for requests that came over REST.
_REQUESTS: Final = 0.5
#: Seconds in which a change of an account that is under way is finished when the task ends: where it is deleted and
#: made again, the second request must follow.
_FINISH: Final = 2.0
#: Seconds that who looks waits for the task, where that may wait for a broker that does not answer.
_PATIENCE: Final = 1.0
#: Why what was asked for is not done.
_UNTOLD: Final = "the group could not be told that this begins, so nothing was done: ask again"

#: Of all groups together, as they stood before what was done the last time.
_SUMMED: Final = ("redelivered", "missed", "without_offset")

log = get_logger(__name__)


class SyncTask:
    """Plans for any worker that asks; runs on the one that owns it."""

    def __init__(self, settings: RouteSettings, context: ConnectorContext, topics: RouteTopics) -> None:
        self.name = str(TaskId(topics.name, METADATA))
        self.running = False
        self.phase = Phase.STOPPED
        self.reason = ""
        self.ledger = SyncLedger(topics.name, context.store)
        self._settings = settings
        #: What is synced here; messages are parked by tasks of their own.
        self._kinds = [kind for kind in settings.sync if kind != "pending"]
        self._context = context
        self._topics = topics
        self._syncer = Syncer(context.source.cluster, context.target.cluster, sync_options(settings, context))
        self._syncer.places.recorded = self._recorded
        self._redelivery = Redelivery(topics.name, context, self._syncer.places)
        #: The record of what POP consumers hold, as it was written here last.
        self._in_flight: Mapping[str, Any] = {}
        self._acl = AclSync(settings, context, self.ledger, self._may_go_on) if KIND in settings.sync else None
        self._lock = asyncio.Lock()
        self._last_plan: SyncPlan | None = None
        self._schedule = Schedule()
        self.copied = CopiedQueues(context.store, topics)
        self._report = SyncReport(topics.name, context, self.ledger, self._kinds)
        self._standings = dict.fromkeys(_SUMMED, 0)
        self._begun: asyncio.Task[None] | None = None
        self._ending = False

    # What there is to do.

    @property
    def wanted(self) -> bool:
        """Whether there is any metadata to sync."""
        return bool(self._kinds)

    @property
    def status(self) -> Mapping[str, Any]:
        """How the task is doing, as its owner has told the group."""
        return self._report.status

    async def plan(self) -> SyncPlan:
        """Plans all kinds; writes nothing. While the task waits for a broker that hangs, it is the last plan.

        Raises:
            BrokerRefused, Unreachable, RequestTimeout: a cluster could not be asked.
        """
        try:
            async with asyncio.timeout(_PATIENCE if meets_silence() else None):
                await self._lock.acquire()
        except TimeoutError:
            return as_it_was(
                self._last_plan, self._kinds, (self._context.source.cluster, self._context.target.cluster)
            )
        try:
            self._last_plan = await self._new_plan()
        finally:
            self._lock.release()
        return self._last_plan

    async def _new_plan(self) -> SyncPlan:
        steps: list[Step] = []
        places: list[GroupQueue] = []
        unasked: list[Unasked] = []
        at = time.time()
        for kind in self._kinds:
            if self._acl is not None and kind == KIND:
                if not self.running:
                    self._acl.forget()  # the worker that runs the task knows better by now
                steps += await self._acl.plan()
            elif kind == "offsets":
                redeliver = self._redelivery.forecast
                planned, places = await self._syncer.plan_offsets(self.copied.snapshot(), redeliver=redeliver)
                steps += planned
            else:
                steps += (await self._plan(kind)).actions
            unasked += self._unasked(kind)
        return SyncPlan(steps, await group_standings(places), unasked, self._redelivery.denied, at)

    def _unasked(self, kind: str) -> list[Unasked]:
        """The brokers that did not answer when this kind was last planned."""
        if self._acl is not None and kind == KIND:
            return self._acl.unasked
        return [Unasked(kind, broker, why) for broker, why in self._syncer.failures.items()]

    @property
    def in_flight_problems(self) -> list[str]:
        """Why it was not known at the last look what POP consumers hold; and offsets that are not carried over."""
        return self._syncer.places.problems

    async def places(self) -> list[GroupQueue]:
        """Where all groups stand."""
        async with self._lock:
            places = await self._syncer.places.read(self.copied.snapshot().queue)
            return await self._redelivery.forecast(places)

    def synced_offsets(self, concerns: Callable[[str], bool] = lambda _: True) -> dict[str, Any] | None:
        """As of when the offsets of which groups are at the target, as `places` found them; None: none are synced.

        Args:
            concerns: of which topics of the source.
        """
        if "offsets" not in self._kinds:
            return None
        groups = {entry.source for (_, item), entry in self.ledger.of("groups").items() if item == entry.source}
        return synced_offsets(
            self._syncer.places.there.tables,
            self.copied.snapshot(concerns).plans,
            synced=groups,
            selects=self._syncer.options.selector.selects,
            at=self.status.get("kinds", {}).get("offsets", {}).get("at", 0.0),
        )

    async def check(self) -> None:
        """Whether what is asked for can be done at all.

        Raises:
            StartupError: accounts are to be synced, but a side has none, or refuses to show them.
            ClientError: a side cannot be asked.
        """
        if self._acl is not None:
            await self._acl.plan()

    async def _plan(self, kind: str) -> Planned:
        """Of topics or groups."""
        plan = self._syncer.plan_topics if kind == "topics" else self._syncer.plan_groups
        return await plan(self.copied.snapshot(), self.ledger.of(kind))

    # Doing it.

    def start(self, group: asyncio.TaskGroup) -> None:
        """From now on this worker does it."""
        self.running = True
        self._ending = False
        self.phase = Phase.STARTING
        if self._acl is not None:
            self._acl.forget()
        self._schedule = Schedule()
        self._begun = group.create_task(self._begin(), name=self.name)

    async def _begin(self) -> None:
        await self.sync()
        if self._ending:
            return
        settings = self._settings
        for kind, seconds in (
            ("topics", settings.sync_topics_interval),
            ("groups", settings.sync_groups_interval),
            ("offsets", settings.sync_offsets_interval),
            (KIND, settings.sync_acl_interval),
        ):
            if kind in settings.sync:
                self._schedule.every(seconds, partial(self._once, kind), name=f"sync of {kind}")
        self._schedule.every(_REQUESTS, self._serve, name="requests to apply")
        self._schedule.start()

    async def _once(self, kind: str) -> None:
        done = await self.sync([kind])
        log.debug("metadata checked", kind=kind, changes=sum(not isinstance(each, Unasked) for each in done))

    async def stop(self) -> None:
        """Ends, once what is under way is done; what takes too long goes no further than its next change."""
        self._ending = True
        begun = self._begun  # another stop may be under way, as where a lease is lost again, and end first
        if begun is not None:
            if self._acl is not None:
                await asyncio.wait([begun], timeout=_FINISH)
            begun.cancel()
            await asyncio.wait([begun])
            self._begun = None
        await self._schedule.end()
        self.running = False
        self.phase = Phase.STOPPED

    async def sync(
        self, kinds: Sequence[str] | None = None, *, forced: Collection[str] = ()
    ) -> list[Done | Unasked]:
        """Plans and applies; what fails is reported, and retried the next time."""
        done: list[Done | Unasked] = []
        async with self._lock:
            for kind in self._kinds if kinds is None else kinds:
                try:
                    done += await self._sync(kind, forced)
                except (ClientError, ProtocolError, StartupError) as error:
                    done.append(self._failed(kind, str(error)))
                except Exception as error:  # a bug here ends neither the worker nor the copying
                    log.exception("metadata not synced", kind=kind)
                    done.append(self._failed(kind, f"{type(error).__name__}: {error}"))
        return done

    def _failed(self, kind: str, reason: str) -> Unasked:
        self._report_done(kind, [], [], {"": reason})
        return Unasked(kind, "", reason)

    async def _sync(self, kind: str, forced: Collection[str]) -> list[Done | Unasked]:
        if kind in ("topics", "groups"):
            return await self._carry_out(kind)
        if self._acl is not None and kind == KIND:
            steps, settled = await self._acl.sync()
            self._report_done(kind, steps, settled, {each.broker: each.reason for each in self._acl.unasked})
            return [*settled, *self._unasked(kind)]
        planned, places = await self._syncer.plan_offsets(self.copied.snapshot(), forced=forced)
        standings = dict.fromkeys(_SUMMED, 0)
        async for part in in_slices(places):
            for each in map(standing, part):
                for name in _SUMMED:
                    standings[name] += getattr(each, name)
        self._standings = standings
        self._record(places)
        done = await self._apply(kind, planned)
        self._report_done(kind, planned, done, self._syncer.failures)
        return [*done, *self._unasked(kind)]

    def _record(self, places: Collection[GroupQueue]) -> None:
        """Keeps what POP consumers hold, for whoever fails over when the source cannot be asked any more."""
        record = self.ledger.get("in_flight")
        known = record if self._syncer.places.failures else {}  # what is not known now is as it was
        self._in_flight = record_of(places, known)
        if self._in_flight != (self.ledger.get("in_flight") or record_of(())):
            self.ledger.put("in_flight", self._in_flight)

    def _recorded(self) -> list[HeldQueue]:
        """What another worker, or this one before, has seen later than this task."""
        record = self.ledger.get("in_flight")
        return [] if record == self._in_flight else held_queues(record)

    async def _carry_out(self, kind: str) -> list[Done | Unasked]:
        planned = await self._plan(kind)
        done = await self._apply(kind, planned.actions)
        remember = self._syncer.remember_topics if kind == "topics" else self._syncer.remember_groups
        self.ledger.learn(kind, await remember(planned, self.ledger.of(kind), done))
        self._report_done(kind, planned.actions, done, self._syncer.failures)
        return [*done, *self._unasked(kind)]

    async def hand_over(
        self,
        *,
        open_all: bool,
        dry_run: bool = False,
        concerns: Callable[[str], bool] = lambda _: True,
        may_go_on: Callable[[], bool] = lambda: True,
        begins: Callable[[str], None] = lambda _: None,
    ) -> tuple[list[Done], list[str]]:
        """The last sync, when the route has stopped; topics get the perm that the source has, protected or not.

        Args:
            open_all: topics become writable whatever their perm is at the source.
            dry_run: nothing is changed. Accounts are not looked at then.
            concerns: whether a topic of the source is handed over; groups and accounts are in any case.
            may_go_on: asked before each change, which takes its time: whether the route is still stopped.
            begins: told of each kind when its turn comes.

        Returns:
            what was done, or would be; and what could not be known.

        Raises:
            BrokerRefused, Unreachable, RequestTimeout: the target cannot be asked.
        """
        done, failed = list[Done](), list[str]()
        async with self._lock:
            apply = would_apply if dry_run else self._syncer.apply
            carry_out = partial(each_possible, apply=apply, may_go_on=may_go_on)
            if not dry_run:
                self._ending = False
                if self._acl is not None:
                    self._acl.forget()
            for kind in (kind for kind in self._kinds if kind != "topics" and not (dry_run and kind == KIND)):
                if not may_go_on():
                    break
                begins(kind)
                try:
                    if kind == "offsets":
                        redeliver = partial(self._redelivery.carry_out, may_go_on=may_go_on, dry_run=dry_run)
                        copied = self.copied.snapshot(concerns)
                        actions, _ = await self._syncer.plan_offsets(copied, redeliver=redeliver)
                        done += await carry_out(kind, actions)
                        failed += self._redelivery.problems
                    else:
                        done += await self._last(kind, carry_out, learns=not dry_run)
                except ReplicatorError as error:
                    failed.append(str(Unasked(kind, "", str(error))))
                    continue
                failed += map(str, self._unasked(kind))
            begins("topics")
            copy, seen = self.copied.snapshot(concerns), self._context.source.topics
            planned = await self._syncer.plan_switch(copy, open_all=open_all, seen=seen)
            failed += map(str, self._unasked("topics"))
            failed += [f"{each.key} at {each.broker}: {each.blocked}" for each in planned.actions if each.blocked]
            opened = await carry_out("topics", planned.actions)
            if dry_run:
                return [*done, *opened], failed
            ledger = self.ledger.of("topics")
            self.ledger.learn("topics", await self._syncer.remember_topics(planned, ledger, opened))
        if unwritten := self._report.note("hand-over", [*done, *opened]):
            failed.append(unwritten)
        return [*done, *opened], failed

    async def _last(
        self,
        kind: str,
        carry_out: Callable[[str, Iterable[Action]], Awaitable[list[Applied]]],
        *,
        learns: bool,
    ) -> Sequence[Done]:
        if self._acl is not None and kind == KIND:
            return (await self._acl.sync())[1]
        planned = await self._plan(kind)
        done = await carry_out(kind, planned.actions)
        if learns:
            self.ledger.learn(kind, await self._syncer.remember_groups(planned, self.ledger.of(kind), done))
        return done

    async def _apply(self, kind: str, actions: Iterable[Action]) -> list[Applied]:
        """What was done of them: another worker may do the rest by now."""

        async def apply(action: Action) -> Applied | None:
            return await self._syncer.apply(action) if self._may_go_on() else None

        return [each for each in await each_possible(kind, actions, apply) if each is not None]

    def _may_go_on(self) -> bool:
        return self._context.may_send() and not self._ending

    async def _serve(self) -> None:
        """Carries out a request that any worker has received over REST."""
        taken = self.ledger.take()
        if taken is None:
            return
        done: Sequence[Done | Unasked] = [Unasked(kind, "", _UNTOLD) for kind in self._kinds]
        # Published before it is done, or the task's next owner might force the same again.
        if await self._context.publish():
            with bound_contextvars(**({"actor": taken.by} if taken.by else {})):
                log.info("changes asked for are applied", connector=self._topics.name, forced=taken.force)
                done = await self.sync(forced=taken.force)
        self.ledger.answer(taken.id, [each.shown() for each in done])

    def _report_done(
        self, kind: str, actions: Sequence[Step], done: Sequence[Done], failures: Mapping[str, str]
    ) -> None:
        more = self._standings if kind == "offsets" else {}
        self.reason = self._report.write(kind, actions, done, failures, more)
        self.phase = Phase.WAITING if self.reason else Phase.RUNNING
