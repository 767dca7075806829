"""The metadata task of a route: one worker of the group keeps the target's metadata in step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from replicator.errors import ClientError, ProtocolError, StartupError
from replicator.metadata.action import Action
from replicator.metadata.groups import GroupSelector
from replicator.metadata.ledger import DRIFT, Planned
from replicator.metadata.offsets import CopiedQueue, GroupQueue, standing
from replicator.metadata.options import SyncOptions
from replicator.metadata.syncer import Copy, Syncer
from replicator.observe.logging import get_logger
from replicator.routing.offset_map import Interval, OffsetMap
from replicator.routing.queue_map import Queue
from replicator.routing.state import Phase
from replicator.runtime.records import Kind
from replicator.runtime.route_topics import RouteTopics
from replicator.runtime.schedule import Schedule
from replicator.runtime.sync_acl import KIND, AclSync, Done, Step
from replicator.runtime.sync_ledger import SyncLedger
from replicator.runtime.world import World
from replicator.settings import RouteSettings

__all__ = ["METADATA", "SyncTask"]

#: The task's name within its route; no topic can be called so.
METADATA: Final = ".metadata"
#: Seconds between looks for what somebody asks for over REST.
_REQUESTS: Final = 0.5

#: Of all groups together, as they stood before what was done the last time.
_SUMMED: Final = ("again", "skipped", "anywhere")

log = get_logger(__name__)


class SyncTask:
    """Plans for any worker that asks; runs on the one that owns it."""

    def __init__(self, settings: RouteSettings, world: World, topics: RouteTopics) -> None:
        self.name = f"{topics.name}/{METADATA}"
        self.running = False
        self.phase = Phase.STOPPED
        self.reason = ""
        self.ledger = SyncLedger(topics.name, world.store)
        self._settings = settings
        self._world = world
        self._topics = topics
        self._syncer = Syncer(world.source.cluster, world.target.cluster, sync_options(settings, world))
        self._acl = AclSync(settings, world, self.ledger, self._may_go_on) if KIND in settings.sync else None
        self._lock = asyncio.Lock()
        self._schedule = Schedule()
        self._maps: dict[str, tuple[object, OffsetMap]] = {}
        self._told: dict[str, str] = {}
        self._standings = dict.fromkeys(_SUMMED, 0)
        self._begun: asyncio.Task[None] | None = None
        self._ending = False

    # What there is to do.

    def copy(self) -> Copy:
        """What the route copies, as the group knows it now."""
        return Copy(self._topics.plans, self._copied)

    def _copied(self, topic: str, source: Queue) -> CopiedQueue | None:
        store = self._world.store
        target = store.queue_map(self._topics.name, topic).get(source)
        if target is None:
            return None
        key = f"{self._topics.name}/{topic}/{source.broker}/{source.queue_id}"
        state = store.state
        position, offset = state.get(Kind.POSITION, key), state.get(Kind.OFFSET, key)
        if position is None or position["position"] is None or offset is None:
            return None  # its copy has not begun
        known = self._maps.get(key)
        if known is None or known[0] is not offset:
            made = OffsetMap(Interval(*interval) for interval in offset["intervals"])
            known = self._maps[key] = (offset, made)
        return CopiedQueue(
            source,
            target,
            store.target_topic(self._topics.name, topic),
            position=position["position"],
            start=position["start"] or 0,
            offsets=known[1],
            floor=offset["target_floor"],
        )

    async def plan(self, *, forced: Collection[str] = ()) -> list[Step]:
        """All that is to be done now; writes nothing.

        Raises:
            BrokerRefused, Unreachable, RequestTimeout: a cluster could not be asked.
        """
        async with self._lock:
            if self._acl is not None and not self.running:
                self._acl.forget()  # whoever has the task knows better by now
            return [action for kind in self._settings.sync for action in await self._look(kind, forced=forced)]

    async def check(self) -> None:
        """Whether what is asked for can be done at all.

        Raises:
            StartupError: accounts are to be synced, but a side has none, or refuses to show them.
            ClientError: a side cannot be asked.
        """
        if self._acl is not None:
            await self._acl.plan()

    async def _look(self, kind: str, *, forced: Collection[str] = ()) -> Sequence[Step]:
        if self._acl is not None and kind == KIND:
            return await self._acl.plan()
        if kind == "topics":
            return (await self._syncer.plan_topics(self.copy(), self.ledger.of(kind))).actions
        if kind == "groups":
            return (await self._syncer.plan_groups(self.copy(), self.ledger.of(kind))).actions
        return (await self._syncer.plan_offsets(self.copy(), forced=forced))[0]

    async def places(self) -> list[GroupQueue]:
        """Where all groups stand."""
        async with self._lock:
            return (await self._syncer.plan_offsets(self.copy()))[1]

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
        settings = self._settings
        for kind, seconds in (
            ("topics", settings.sync_topics_interval),
            ("groups", settings.sync_groups_interval),
            ("offsets", settings.sync_offsets_interval),
            (KIND, settings.sync_acl_interval),
        ):
            if kind in settings.sync:
                self._schedule.every(seconds, partial(self._once, kind))
        self._schedule.every(_REQUESTS, self._serve)
        self._schedule.start()

    async def _once(self, kind: str) -> None:
        await self.sync([kind])

    async def stop(self) -> None:
        """Ends, once what is under way is done; what takes too long goes no further than its next change."""
        self._ending = True
        if self._begun is not None:
            self._begun.cancel()
            await asyncio.wait([self._begun])
            self._begun = None
        await self._schedule.end()
        self.running = False
        self.phase = Phase.STOPPED

    async def sync(self, kinds: Sequence[str] | None = None, *, forced: Collection[str] = ()) -> list[Done]:
        """Looks, and does what is to be done; what does not work is told, and tried again the next time."""
        done: list[Done] = []
        async with self._lock:
            for kind in self._settings.sync if kinds is None else kinds:
                try:
                    done += await self._sync(kind, forced)
                except (ClientError, ProtocolError, StartupError) as error:
                    self._tell(kind, [], [], {"": str(error)})
                except Exception as error:  # a bug here ends neither the worker nor the copying
                    log.exception("metadata not synced", kind=kind)
                    self._tell(kind, [], [], {"": f"{type(error).__name__}: {error}"})
        return done

    async def _sync(self, kind: str, forced: Collection[str]) -> list[Done]:
        if kind == "topics":
            return await self._settle(kind, self._syncer.plan_topics, self._syncer.remember_topics)
        if kind == "groups":
            return await self._settle(kind, self._syncer.plan_groups, self._syncer.remember_groups)
        if self._acl is not None and kind == KIND:
            steps, settled = await self._acl.sync()
            self._tell(kind, steps, settled, {})
            return list(settled)
        planned, places = await self._syncer.plan_offsets(self.copy(), forced=forced)
        standings = [standing(place) for place in places]
        self._standings = {name: sum(getattr(each, name) for each in standings) for name in _SUMMED}
        done = await self._apply(planned)
        self._tell(kind, planned, done, self._syncer.failures)
        return done

    async def _settle(self, kind: str, plan: Any, remember: Any) -> list[Done]:
        ledger = self.ledger.of(kind)
        planned: Planned = await plan(self.copy(), ledger)
        done = await self._apply(planned.actions)
        self.ledger.learn(kind, await remember(planned, ledger, done))
        self._tell(kind, planned.actions, done, self._syncer.failures)
        return done

    async def hand_over(self, *, open_all: bool) -> tuple[list[Done], list[str]]:
        """The last sync, when the route has stopped; topics get the perm that the source has, protected or not.

        Args:
            open_all: topics become writable whatever their perm is at the source.

        Returns:
            what was done, and what could not be known.

        Raises:
            BrokerRefused, Unreachable, RequestTimeout: the target cannot be asked.
        """
        done: list[Done] = []
        failed: list[str] = []
        async with self._lock:
            self._ending = False
            if self._acl is not None:
                self._acl.forget()
            for kind in (kind for kind in self._settings.sync if kind != "topics"):
                try:
                    done += await self._last(kind)
                except (ClientError, ProtocolError, StartupError) as error:
                    failed.append(f"{kind}: {error}")
                    continue
                failed += [f"{kind} at {broker}: {why}" for broker, why in self._syncer.failures.items()]
            planned = await self._syncer.plan_switch(self.copy(), open_all=open_all)
            opened = [await self._syncer.apply(action) for action in planned.actions]
            ledger = self.ledger.of("topics")
            self.ledger.learn("topics", await self._syncer.remember_topics(planned, ledger, opened))
        self._note("hand-over", [*done, *opened])
        return [*done, *opened], failed

    async def _last(self, kind: str) -> Sequence[Done]:
        if self._acl is not None and kind == KIND:
            return (await self._acl.sync())[1]
        if kind == "groups":
            actions = (await self._syncer.plan_groups(self.copy(), self.ledger.of(kind))).actions
        else:
            actions, _ = await self._syncer.plan_offsets(self.copy())
        return [await self._syncer.apply(action) for action in actions if not action.blocked]

    async def _apply(self, actions: Iterable[Action]) -> list[Done]:
        done: list[Done] = []
        for action in actions:
            if action.blocked:
                continue
            if not self._may_go_on():
                break  # somebody else does it by now
            done.append(await self._syncer.apply(action))
        return done

    def _may_go_on(self) -> bool:
        return self._world.may_send() and not self._ending

    async def _serve(self) -> None:
        """What somebody has asked any worker for over REST."""
        request = self.ledger.get("request")
        if request and request["id"] != self.ledger.get("answer").get("id"):
            done = await self.sync(forced=request["force"])
            self.ledger.put("answer", {"id": request["id"], "done": [each.shown() for each in done]})

    # Telling.

    def _tell(
        self,
        kind: str,
        actions: Sequence[Step],
        done: Sequence[Done],
        failures: Mapping[str, str],
    ) -> None:
        blocked = [action for action in actions if action.blocked]
        failed = [each for each in done if each.error]
        known = self.ledger.get("status")
        before = known.get("kinds", {}).get(kind, {})
        well = not failures and not failed
        told = {
            "at": time.time() if well else before.get("at", 0.0),
            "applied": before.get("applied", 0) + len(done) - len(failed),
            "blocked": len(blocked),
            "drift": sum(action.blocked == DRIFT for action in blocked),
            "failed": len(failed),
            "reasons": sorted(
                {*(f"{b or 'cluster'}: {why}" for b, why in failures.items()), *(f.error for f in failed)}
            ),
            **(self._standings if kind == "offsets" else {}),
        }
        kinds = {**known.get("kinds", {}), kind: told}
        self.ledger.put("status", {"owner": self._world.store.state.worker, "kinds": kinds})
        ill = [f"{kind}: {why}" for kind, each in kinds.items() for why in each["reasons"]]
        self.phase, self.reason = (Phase.WAITING, ill[0]) if ill else (Phase.RUNNING, "")
        self._log(kind, blocked, failed, failures)
        self._note(kind, done)

    def _log(
        self,
        kind: str,
        blocked: Iterable[Step],
        failed: Iterable[Done],
        failures: Mapping[str, str],
    ) -> None:
        """What an operator has to know, once each."""
        news = {f"{kind}/{broker}": reason for broker, reason in failures.items()}
        news |= {f"{kind}/{each.action.broker}/{each.action.key}": each.error for each in failed}
        news |= {f"{kind}/{action.broker}/{action.key}": action.blocked for action in blocked}
        for key, reason in news.items():
            if self._told.get(key) != reason:
                log.warning("not in step at the target", what=key, reason=reason)
        gone = {key for key in self._told if key.startswith(f"{kind}/")}
        self._told = {key: why for key, why in self._told.items() if key not in gone} | news

    def _note(self, kind: str, done: Sequence[Done]) -> None:
        """Writes down what was done."""
        entries = [
            {
                "at": time.time(),
                "worker": self._world.store.state.worker,
                "connector": self._topics.name,
                **each.shown(),
            }
            for each in done
        ]
        for entry in entries:
            self._world.audit.write(entry)
            if kind != "offsets":
                log.info("target changed", **{name: entry[name] for name in ("kind", "verb", "broker", "name")})
        if kind != "offsets":  # there are too many of those for all to remember
            self.ledger.audit(entries)


def sync_options(settings: RouteSettings, world: World) -> SyncOptions:
    """What a route's settings mean for its metadata."""
    return SyncOptions(
        identity=world.identity,
        selector=GroupSelector.of(settings.sync_groups, settings.exclude_groups),
        protect=settings.protect_target,
        repair=settings.on_drift == "repair",
        deletes=settings.sync_deletes,
    )
