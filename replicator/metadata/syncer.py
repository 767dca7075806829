"""Keeps the target's metadata what the source's is: looks at both, plans, applies."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from replicator.aio.bounded import bounded
from replicator.aio.slices import in_slices
from replicator.client.brokers import max_offset
from replicator.client.cluster import Cluster
from replicator.client.groups import GroupTable, read_groups
from replicator.client.offsets import read_offsets
from replicator.client.system_topics import is_system
from replicator.client.topics import WRITABLE, TopicTable
from replicator.client.unresponsive import UnresponsiveBrokers
from replicator.errors import ClientError, ProtocolError
from replicator.metadata import groups, topics
from replicator.metadata.action import Action, Commit, DropGroup, Write
from replicator.metadata.apply import apply
from replicator.metadata.clusters import Tables
from replicator.metadata.deletions import emptied, is_deletion, unless, unsure
from replicator.metadata.foreign_messages import has_foreign_messages
from replicator.metadata.group_positions import GroupPositions
from replicator.metadata.group_register import GroupRegister
from replicator.metadata.ledger import (
    FOREIGN,
    JUST_IDLE,
    LIVE,
    OTHERS,
    Entry,
    Key,
    Ledger,
    Planned,
    remember,
)
from replicator.metadata.offsets import GroupQueue, QueueLookup, plan_offsets
from replicator.metadata.options import SyncOptions
from replicator.metadata.order_tables import NameServerOrders
from replicator.metadata.orders import is_order
from replicator.metadata.target_consumers import GroupConsumers, TargetConsumers
from replicator.routing.plan import TopicPlan, Topics
from replicator.routing.queue_map import Queue, needed_queues

__all__ = ["Applied", "ReplicationSnapshot", "Syncer"]

T = TypeVar("T")
#: Places, and of groups that hold something the consumers at the target.
Redeliver = Callable[[list[GroupQueue], Mapping[str, GroupConsumers]], Awaitable[list[GroupQueue]]]
#: Seconds for which a group that the source has deleted must have had no consumers: they come back within half a
#: minute to a broker that was restarted.
_QUIET: Final = 60.0
#: Topics that are looked into at the same time.
_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class ReplicationSnapshot:
    """What a route copies: the plan of each topic, and how far each queue is.

    `brokers` are those of the source that a topic is or was copied from, by its name at the source; `made` gives
    those of the target at which it was made for the route, and `selects` says of one whether the route still copies
    it, if the source has it. `given_up` are the copies of forgotten source brokers, by their topics at the source.
    """

    plans: Sequence[TopicPlan]
    queue: QueueLookup
    brokers: Mapping[str, Collection[str]]
    made: Callable[[str], Collection[str]]
    selects: Callable[[str], bool]
    given_up: Mapping[str, topics.GivenUpCopies] = field(default_factory=dict)

    def brokers_of(self, topic: str) -> Collection[str]:
        """Where a topic may still be; of one whose brokers nobody remembers, anywhere."""
        return self.brokers.get(topic) or self.all_brokers

    @property
    def all_brokers(self) -> set[str]:
        return {broker for brokers in self.brokers.values() for broker in brokers}


class Applied(NamedTuple):
    """An action that was tried; `error` says why it did not work, empty when it did."""

    action: Action
    error: str

    def shown(self) -> dict[str, Any]:
        """For people and scripts."""
        return {**self.action.shown(), "error": self.error}


class Syncer:
    """Plans and applies for one route; `failures` are brokers and name servers that did not answer last."""

    def __init__(self, source: Cluster, target: Cluster, options: SyncOptions) -> None:
        self.options = options
        self.failures: dict[str, str] = {}
        self._source = source
        self._target = target
        self._topics = (_topics(source, masters_only=False), _topics(target, masters_only=True))
        self._orders = NameServerOrders(source, target)
        self._groups = (_groups(source, masters_only=False), _groups(target, masters_only=True))
        register = GroupRegister(*self._groups)
        self.places = GroupPositions(source, target, options.identity, options.selector, register)
        self._ends: dict[str, dict[Queue, int]] = {}
        self._unresponsive = UnresponsiveBrokers({})
        self._consumers = TargetConsumers(target)

    # Topics.

    async def plan_topics(self, copy: ReplicationSnapshot, ledger: Ledger) -> Planned:
        """What is to be done to the target's topics, and to their order configurations."""
        (source, target), _ = await asyncio.gather(self._refreshed(self._topics), self._orders.refresh())
        known = {key: entry for key, entry in ledger.items() if not is_order(key)}
        self._unresponsive = UnresponsiveBrokers(self._topics[0].failures)
        copied = {plan.topic for plan in copy.plans}
        self._ends = {topic: ends for topic, ends in self._ends.items() if topic in copied}
        waiting = await bounded(lambda plan: self._missing(plan, copy, source), copy.plans, at_once=_AT_ONCE)
        missing = {plan.topic: left for plan, left in zip(copy.plans, waiting, strict=True)}
        planned = topics.plan_topics(
            copy.plans,
            {name: table.topics for name, table in source.items()},
            {name: table.topics for name, table in target.items()},
            known,
            missing=lambda topic: missing[topic],
            made=copy.made,
            selects=copy.selects,
            policy=self.options.topics,
        )

        def having(action: Action) -> Collection[str]:
            return copy.brokers_of(known[action.broker, action.key].source)

        lost = emptied(known, {name: table.topics for name, table in source.items()}, copy.brokers_of)
        planned = unsure(planned, self._topics[0].masters, having, self._source.brokers())
        planned = unless(planned, lambda action: next((lost[b] for b in having(action) if b in lost), ""))
        planned = await self._without_foreign(planned)
        orders = self._orders.plan(copy.plans, ledger, selects=copy.selects, policy=self.options.topics)
        self.failures |= self._orders.failures
        return Planned([*planned.actions, *orders.actions], {**planned.wanted, **orders.wanted})

    async def _without_foreign(self, planned: Planned) -> Planned:
        """No topic is deleted in which applications, or routes from other clusters, have written."""

        async def allowed(action: Action) -> Action:
            if not is_deletion(action):
                return action
            topic = self._topics[1].tables[action.broker].topics[action.key]
            queues, source = range(topic.read_queues), self.options.identity.source
            try:
                master = self._target.master(action.broker)
                foreign = await has_foreign_messages(master, topic.name, queues, source=source)
            except (ClientError, ProtocolError) as error:
                return replace(action, blocked=f"the source has deleted it, but it cannot be read here: {error}")
            return replace(action, blocked=FOREIGN) if foreign else action

        return Planned(await bounded(allowed, planned.actions, at_once=_AT_ONCE), planned.wanted)

    async def plan_switch(
        self, copy: ReplicationSnapshot, *, open_all: bool, seen: Topics = MappingProxyType({})
    ) -> Planned:
        """What makes the target's topics those that applications use.

        Args:
            seen: what source brokers had when the worker last saw them: some may have been away ever since it
                first looked here.
        """
        source, target = await self._refreshed(self._topics)
        away = {name: seen[name] for name in self._topics[0].failures.keys() & seen.keys()}
        self._orders.forget_target()  # what is not looked at now is not remembered as it was then
        return topics.plan_switch(
            copy.plans,
            {name: table.topics for name, table in source.items()} | away,
            {name: table.topics for name, table in target.items()},
            given_up=copy.given_up,
            open_all=open_all,
        )

    async def _missing(
        self, plan: TopicPlan, copy: ReplicationSnapshot, source: Mapping[str, TopicTable]
    ) -> int | None:
        """Messages that have not arrived, of a topic that nobody can write to any more; else 0. None: not known.

        A broker's end of a queue lags behind what it has acknowledged, so it must be the same twice.
        """
        topic = plan.topic
        perms = [table.topics[topic].perm for table in source.values() if topic in table.topics]
        if any(perm & WRITABLE for perm in perms):
            self._ends.pop(topic, None)
            return 0
        ends: dict[Queue, int] = {}
        missing = 0
        for queue in plan.queue_map:
            copied = copy.queue(topic, queue)
            try:
                end = await self._unresponsive.ask(queue.broker, partial(self._end, topic, queue))
            except (ClientError, ProtocolError) as error:
                self.failures[queue.broker] = str(error)
                return None
            ends[queue] = end
            missing += max(0, end - (copied.position if copied else 0))
        sure = self._ends.get(topic) == ends and bool(ends)
        self._ends[topic] = ends
        return missing if sure else max(missing, 1)

    async def _end(self, topic: str, queue: Queue) -> int:
        return await max_offset(self._source.reader(queue.broker), topic, queue.queue_id)

    async def remember_topics(
        self, planned: Planned, ledger: Ledger, applied: Collection[Applied]
    ) -> dict[Key, Entry | None]:
        """What has become of it, for the ledger."""
        target = await _since(self._topics[1], applied)
        current = {
            (broker, name): topics.settings_of(config)
            for broker, table in target.items()
            for name, config in table.topics.items()
        }
        written = _written(applied)
        orders, nameservers = await self._orders.since(written=any(map(is_order, written)))
        return remember(planned, {**current, **orders}, ledger, written=written, answered={*target, *nameservers})

    # Groups.

    async def plan_groups(self, copy: ReplicationSnapshot, ledger: Ledger) -> Planned:
        """What is to be done to the target's groups."""
        source, target = await self._refreshed(self._groups)
        self._consumers.begin()
        placed = defaultdict[str, set[str]](set)
        for plan in copy.plans:
            placed[plan.target_topic] |= needed_queues(plan.queue_map).keys()
        planned = groups.plan_groups(
            source,
            target,
            ledger,
            selector=self.options.selector,
            topics={plan.topic: plan.target_topic for plan in copy.plans},
            placed=placed,
            policy=self.options.groups,
        )
        planned = unsure(planned, self._groups[0].masters, lambda _: copy.all_brokers, self._source.brokers())
        known = {key: entry for key, entry in ledger.items() if key[1] == entry.source}  # groups, not their bans
        lost = emptied(known, {name: table.groups for name, table in source.items()}, lambda _: source)
        if len(lost) == len(source):  # a group that one of them has is not lost
            planned = unless(planned, lambda _: next(iter(lost.values()), ""))
        return await self._without_consumers(await self._without_others_offsets(planned, copy))

    async def _without_others_offsets(self, planned: Planned, copy: ReplicationSnapshot) -> Planned:
        """No group is deleted that reads what the route has not copied: its offsets there would go, too."""
        drops = [action for action in planned.actions if is_deletion(action)]
        if not drops:
            return planned
        tables, ours = await self._topics[1].refresh(), {plan.target_topic for plan in copy.plans}
        why: dict[Key, str] = {}
        for broker in {action.broker for action in drops}:
            names = {name for name in getattr(tables.get(broker), "topics", ()) if not is_system(name)} - ours
            try:
                offsets = (await read_offsets(self._target.master(broker))).offsets
            except (ClientError, ProtocolError) as error:
                failed = f"the source has deleted it, but its offsets cannot be read here: {error}"
                why |= {(broker, each.key): failed for each in drops}
                continue
            for group, topic in sorted(offsets):
                if topic in names:
                    why.setdefault((broker, group), OTHERS.format(topic=topic))
        return unless(planned, lambda action: why.get((action.broker, action.key), ""))

    async def _without_consumers(self, planned: Planned) -> Planned:
        """A group that somebody consumes in is not deleted, at no broker; nor one of which that is not known."""
        found = await self._consumers.read_absences(each.key for each in planned.actions if is_deletion(each))
        brokers = self._target.brokers()

        def why(action: Action) -> str:
            consumers, quiet = found[action.key]
            if consumers.live:
                return LIVE
            return consumers.unsure(brokers) or ("" if quiet >= _QUIET else JUST_IDLE)

        return unless(planned, why)

    async def remember_groups(
        self, planned: Planned, ledger: Ledger, applied: Collection[Applied]
    ) -> dict[Key, Entry | None]:
        """What has become of it, for the ledger."""
        target = await _since(self._groups[1], applied)
        current = {
            (broker, item): settings
            for broker, table in target.items()
            for item, settings in groups.items_of(table).items()
        }
        return remember(planned, current, ledger, written=_written(applied), answered=target)

    # Offsets.

    async def plan_offsets(
        self, copy: ReplicationSnapshot, *, forced: Collection[str] = (), redeliver: Redeliver | None = None
    ) -> tuple[list[Action], list[GroupQueue]]:
        """What is to be committed at the target, and where all groups stand.

        Args:
            redeliver: what becomes of messages that POP consumers hold; it says where groups are then. None: groups
                stay before the first of them.
        """
        places = await self.places.read(copy.queue)
        self.failures = self.places.failures
        self._consumers.begin()
        if redeliver is not None:
            places = await redeliver(
                places, await self._consumers.read(place.group for place in places if place.in_flight)
            )
        planned = await _planned(places, live=(), forced=forced)
        asked = {
            action.write.group
            for action in planned
            if not action.blocked and isinstance(action.write, Commit) and action.write.group not in forced
        }
        found = await self._consumers.read(asked)
        live = {group for group, consumers in found.items() if consumers.live}
        planned = await _planned(places, live=live, forced=forced) if live else planned
        return [_unless_unsure(action, found) for action in planned], places

    # All.

    async def _refreshed(self, both: tuple[Tables[T], Tables[T]]) -> tuple[Mapping[str, T], Mapping[str, T]]:
        """What both clusters have now."""
        source, target = await asyncio.gather(both[0].refresh(), both[1].refresh())
        self.failures = both[0].failures | both[1].failures
        return source, target

    async def apply(self, action: Action) -> Applied:
        """Carries out one action."""
        try:
            if why := await self._consumers.since_then(_group_of(action.write), action.broker):
                return Applied(action, why)  # thousands of commits take long
            await apply(self._target, action)
        except (ClientError, ProtocolError) as error:
            return Applied(action, str(error))
        return Applied(action, "")


def _group_of(write: Write) -> str:
    """Whose consumers it must not be changed under."""
    match write:
        case Commit(group=group):
            return group
        case DropGroup(name=name):
            return name
    return ""


async def _planned(places: Iterable[GroupQueue], *, live: Collection[str], forced: Collection[str]) -> list[Action]:
    """What is to be committed; other tasks, that of the lease among them, go on meanwhile."""
    return [action async for part in in_slices(places) for action in plan_offsets(part, live=live, forced=forced)]


def _unless_unsure(action: Action, found: Mapping[str, GroupConsumers]) -> Action:
    """Blocked where the broker has not said whether the group has consumers there."""
    if action.blocked or not isinstance(action.write, Commit) or action.write.group not in found:
        return action
    return replace(action, blocked=found[action.write.group].unsure([action.broker]))


def _topics(cluster: Cluster, *, masters_only: bool) -> Tables[TopicTable]:
    return Tables(
        cluster, lambda broker, known: cluster.read_topics(broker, known=known), masters_only=masters_only
    )


def _groups(cluster: Cluster, *, masters_only: bool) -> Tables[GroupTable]:
    return Tables(cluster, lambda broker, known: read_groups(broker, known=known), masters_only=masters_only)


async def _since(tables: Tables[T], applied: Collection[Applied]) -> Mapping[str, T]:
    """What the brokers have now; what they had for the plan, where nothing was changed since."""
    return await tables.refresh() if applied else tables.tables


def _written(applied: Iterable[Applied]) -> set[Key]:
    return {(done.action.broker, done.action.key) for done in applied if not done.error}
