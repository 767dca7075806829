"""What a route copies, and what the target needs for it: topics with enough queues, and a map of queues."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from replicator.aio.bounded import bounded
from replicator.client.topics import write_topic
from replicator.connector.configured import Configured
from replicator.connector.context import ConnectorContext
from replicator.connector.other_sources import OtherSources
from replicator.connector.retry_groups import RetryGroups
from replicator.connector.selection import AbsentNames, selector_of
from replicator.errors import (
    BrokerRefused,
    ClientError,
    ConfigError,
    ProtocolError,
    ReplicatorError,
    StartupError,
)
from replicator.observe.logging import get_logger
from replicator.routing.message_queue import MessageQueue
from replicator.routing.parked import parked_topics
from replicator.routing.plan import TopicPlan, Topics, chosen_names, plan_topics, queues_of
from replicator.routing.queue_map import Queue, QueueMap
from replicator.routing.task_id import TaskId
from replicator.settings import RouteSettings
from replicator.settings.name_patterns import is_name
from replicator.state.known_brokers import forgotten
from replicator.state.record import Kind

__all__ = ["RouteTopics"]

#: Topics made at the same time.
_AT_ONCE: Final = 16
#: Looks of all workers at the clusters until all have missed a topic: one may take as long as their interval is.
_MISSED: Final = 2
_GONE: Final = "it was deleted at the target; it is created again at one of the next looks"

log = get_logger(__name__)


class RouteTopics:
    """The topics of route `name`: as planned, as made at the target, as tasks.

    Raises:
        ConfigError: a pattern of the settings is an invalid regular expression.
    """

    def __init__(self, name: str, settings: RouteSettings, context: ConnectorContext) -> None:
        self.name = name
        self.settings = settings
        self.plans: Sequence[TopicPlan] = ()
        #: All tasks that copy messages, on any worker.
        self.tasks: frozenset[str] = frozenset()
        self.problems: dict[str, str] = {}
        self._context = context
        context.source.cluster.name_topics(filter(is_name, settings.topics))
        #: Which topics of the source are copied.
        self.selector = selector_of(settings)
        self._absent = AbsentNames(name, settings, context)
        #: System topics of the source whose messages are parked, each with its name at the target.
        self.parked: Mapping[str, str] = (
            parked_topics(context.group, name) if "pending" in settings.sync and context.group else {}
        )
        self._targets: dict[str, str] = {}
        self._is_new = False
        self._configured = Configured(name, context.store)
        self._others = OtherSources(settings, context)
        #: Target queues whose copies may be of another topic that has the same name there, by topic.
        self._untold: dict[str, frozenset[Queue]] = {}
        #: Topics whose copies another connector that is not stopped makes, each with its name.
        self._rivals: dict[str, str] = {}
        #: Target brokers and topics there that were seen.
        self._seen: set[tuple[str, str]] = set()
        #: Topics that are gone there, each with the time when that was seen.
        self._gone: dict[str, float] = {}

    def plan(self) -> None:
        """Reads what both clusters have now. A topic that another connector already copies there is left out.

        Raises:
            ConfigError: every topic would get an impossible name.
        """
        self._absent.look()
        plans = self._make_plans()
        self._targets = {plan.topic: plan.target_topic for plan in plans}
        self._rivals = self._find_rivals(plans)
        # What the last plan found is over, or found again; what could not be made stays until it is.
        found = {(plan.topic, plan.problem) for plan in self.plans}
        held = dict.fromkeys(self._hold_back(plans), _GONE)
        for topic in sorted(held.keys() - self.problems.keys()):
            log.warning("topic is gone at the target", connector=self.name, topic=topic)
        plans = [replace(plan, writes=()) if plan.topic in held else plan for plan in plans]
        made = {
            topic: why
            for topic, why in self.problems.items()
            if topic in self._targets and why != _GONE and (topic, why) not in found
        }
        self.plans = [
            replace(plan, problem=_taken(plan, self._rivals)) if self._gives_way(plan) else plan for plan in plans
        ]
        for plan in self.plans:
            if plan.problem and (plan.topic, plan.problem) not in found:
                log.warning("topic cannot be copied", connector=self.name, topic=plan.topic, reason=plan.problem)
        self.problems = made | held | {plan.topic: plan.problem for plan in self.plans if plan.problem}
        self.tasks = self._name_tasks()

    @property
    def of_users(self) -> list[TopicPlan]:
        """The plans without those of parked messages."""
        return [plan for plan in self.plans if plan.topic not in self.parked]

    def is_copied(self, topic: str) -> bool:
        """Whether messages of a topic, or of a group's retry or dead-letter topic, are copied."""
        return self.selector.selects(topic, system=[*self._context.system_names()])

    def _make_plans(self) -> list[TopicPlan]:
        store, source = self._context.store, self._context.source.topics
        maps = store.queue_maps(self.name)
        away = [
            TopicPlan(topic=topic, target_topic=store.target_topic(self.name, topic), queue_map=queue_map)
            for topic, queue_map in sorted(maps.items())
            if not source or self._is_away(topic, queue_map)
        ]
        if not source:  # it has been away since our start: its topics are those that the group copies
            return away
        target = self._context.target.topics
        known = {topic: store.whole_queue_map(self.name, topic) for topic in maps}
        gone = forgotten(store.state, "source")
        system = [*self._context.system_names()]
        names = chosen_names(source, self.selector, self.settings.rename, self._context.identity, system=system)
        names |= self.parked
        left = {topic: self._left(topic) for topic in names}
        protected = names.keys() - self.parked.keys() if self.settings.protect_target else ()
        without = [name for name, each in self._context.target.configs.items() if not each.has_light_queues]
        plans = plan_topics(
            source, target, known, names, forgotten=gone, left=left, protected=protected, no_light_queues=without
        )
        return sorted([*plans, *away], key=lambda plan: plan.topic)

    def _left(self, topic: str) -> frozenset[Queue]:
        """Target queues that nothing more goes to: those that were given up, and those with copies of others."""
        given_up = self._context.store.left(self.name, topic)
        return given_up | self._others.queues.get(topic, frozenset()) | self._untold.get(topic, frozenset())

    def _is_away(self, topic: str, queue_map: QueueMap) -> bool:
        """Whether a topic that no broker shows is on one whose master does not answer: it is not gone."""
        source = self._context.source
        shown = any(topic in topics for topics in source.topics.values())
        selected = topic in self.parked or self.selector.selects(topic, system=[*self._context.system_names()])
        return selected and not shown and any(queue.broker not in source.complete for queue in queue_map)

    def _find_rivals(self, plans: Iterable[TopicPlan]) -> dict[str, str]:
        state = self._context.store.state
        theirs: dict[str, str] = {}
        for key, value in state.items(Kind.TASK).items():
            name = TaskId.parse(key).connector
            connector = state.get(Kind.CONNECTOR, name)
            if name != self.name and connector is not None and connector["state"] != "STOPPED":
                theirs[value["target_topic"]] = min(name, theirs.get(value["target_topic"], name))
        return {plan.topic: theirs[plan.target_topic] for plan in plans if plan.target_topic in theirs}

    def _gives_way(self, plan: TopicPlan) -> bool:
        """Whether a topic is left to another connector; if both have started, one of them has to continue."""
        if plan.topic not in self._rivals:
            return False
        begun = self._context.store.is_mapped(self.name, plan.topic) and not self.is_renamed(plan.topic)
        return self._rivals[plan.topic] < self.name or not begun

    def refuse_rivals(self) -> None:
        """For what is to run from now on: whether another connector copies one of its topics to the same name.

        Raises:
            ConfigError: one does, or every topic would get an impossible name.
        """
        self.plan()
        refused = [f"topic {p.topic}: {_taken(p, self._rivals)}" for p in self.plans if p.topic in self._rivals]
        if refused:
            raise ConfigError("\n".join(refused))

    def refuse_problems(self) -> None:
        """At the first start no selected topic is left out silently.

        Raises:
            StartupError: topics are selected that cannot be copied.
        """
        refused = [
            f"topic {plan.topic} cannot be copied: {plan.problem}"
            for plan in self.plans
            if plan.problem and plan.topic not in self._rivals
        ]
        if refused:
            raise StartupError("\n".join(refused), hint="leave them out with --exclude-topics")
        if not self.of_users:
            log.warning("no topic of the source is selected yet", connector=self.name, topics=self.settings.topics)

    async def refuse_other_sources(self) -> None:
        """At the first start no copies are put among those of another source unless settings say so.

        Raises:
            StartupError: topics are selected whose queues at the target another source uses.
            ClientError, ProtocolError: the target cannot be asked.
        """
        maps, refused = self._context.store.queue_maps(self.name), []
        for plan in self.plans:
            if plan.topic in maps or plan.problem:
                continue
            queues = queues_of(self._context.target.topics, plan.target_topic)
            ours = (await self._others.read(plan.target_topic, queues)).ours
            if problem := await self._others.consider(plan, ours):
                refused.append(f"topic {plan.topic} cannot be copied: {problem}")
        if refused:
            raise StartupError("\n".join(refused), hint="or leave them out with --exclude-topics")

    def _name_tasks(self) -> frozenset[str]:
        topics = [plan for plan in self.plans if not plan.problem]
        if self.settings.task_granularity == "topic":
            return frozenset(str(TaskId(self.name, plan.topic)) for plan in topics)
        return frozenset(str(TaskId(self.name, plan.topic, queue)) for plan in topics for queue in plan.queue_map)

    async def make_ready(self) -> None:
        """Gives the target's topics the queues that they need, and keeps the queue maps; the leader does it.

        What cannot be made is a problem of that topic alone.

        Raises:
            StartupError: the connector was deleted, stopped or changed; since then nothing was made or kept.
        """
        # Until all of its first topics have a map: those after an interruption have not come later.
        self._is_new = self._is_new or not self._context.store.queue_maps(self.name)
        version = self._configured.version
        maps = await self.find_maps()
        for plan in self.plans:
            if plan.topic in maps and not await self._finds_room(plan, maps[plan.topic]):
                del maps[plan.topic]
        if any(plan.writes for plan in self.plans):
            await self._context.target.refresh()  # or a topic might be created over changes made meanwhile
        self._configured.refuse_changed(version)
        self.plan()
        before = self._context.target.topics
        groups = RetryGroups(self._context.source.cluster, self._context.target.cluster)

        async def make(plan: TopicPlan) -> None:
            made = plan.topic in maps and await self._make(
                plan, groups, lambda: self._configured.version == version
            )
            if made and self._configured.version == version:
                self._keep_map(plan, maps[plan.topic], before, new_route=self._is_new)

        ready = [plan for plan in self.plans if not plan.problem and self.problems.get(plan.topic) != _GONE]
        await bounded(make, ready, at_once=_AT_ONCE)
        self._configured.refuse_changed(version)
        self._is_new = False

    def is_gone(self, target_topic: str, broker: str) -> bool:
        """Whether a broker of the target that shows its topics does not have this one."""
        return target_topic not in self._context.target.topics.get(broker, {target_topic: None})

    def _hold_back(self, plans: Iterable[TopicPlan]) -> set[str]:
        """Topics that were deleted at the target, and that some worker may not have missed yet.

        Were such a topic created at once, the next batch would be the first in it, and what was copied before could
        not be copied again in order.
        """
        now, gone = time.monotonic(), set[str]()
        for plan in plans:
            for broker in {queue.broker for queue in plan.queue_map.values()} & set(self._context.target.topics):
                if not self.is_gone(plan.target_topic, broker):
                    self._seen.add((broker, plan.target_topic))
                elif (broker, plan.target_topic) in self._seen:
                    gone.add(plan.topic)
        self._gone = {topic: self._gone.get(topic, now) for topic in gone}
        missed = _MISSED * self._context.metadata_refresh_interval
        return {topic for topic, since in self._gone.items() if now - since < missed}

    async def _finds_room(self, plan: TopicPlan, known: QueueMap) -> bool:
        """Whether the queues that have no target yet may get one, by what other sources have there."""
        try:
            left = self._context.store.left(self.name, plan.topic)
            problem = await self._others.consider(plan, known, left=left)
        except (ClientError, ProtocolError) as error:
            self._report(plan.topic, error, "let the target's account read the topic")
            return False
        if problem:
            self._report(plan.topic, StartupError(problem), "")
        return not problem

    async def _make(self, plan: TopicPlan, groups: RetryGroups, is_current: Callable[[], bool]) -> bool:
        """Creates the topic at the target's brokers while `is_current`; returns whether it exists now."""
        try:
            if is_current() and (plan.writes or not self._context.store.is_mapped(self.name, plan.topic)):
                await groups.make(plan)
            for broker, topic in plan.writes:
                if not is_current():
                    return False
                await write_topic(self._context.target.cluster.writer(broker), topic)
                log.info(
                    "topic prepared at the target",
                    connector=self.name,
                    topic=topic.name,
                    broker=broker,
                    queues=topic.queues,
                )
        except (ClientError, ProtocolError) as error:
            self._report(plan.topic, error, "let the target's account create topics")
            return False
        self.problems.pop(plan.topic, None)
        return True

    def _report(self, topic: str, error: ReplicatorError, hint: str) -> None:
        problem = f"{error}: {hint}" if isinstance(error, BrokerRefused) else str(error)
        if self.problems.get(topic) != problem:
            log.warning("topic cannot be prepared at the target", connector=self.name, topic=topic, reason=problem)
        self.problems[topic] = problem

    def _keep_map(self, plan: TopicPlan, known: Mapping[Queue, Queue], before: Topics, *, new_route: bool) -> None:
        store, renamed = self._context.store, self.is_renamed(plan.topic)
        if renamed:
            store.forget_offsets(self.name, plan.topic)
        if renamed or known != plan.queue_map or not store.is_mapped(self.name, plan.topic):
            new = set(plan.queue_map) - set(known)
            made = {broker for broker, _ in plan.writes if plan.target_topic not in before.get(broker, {})}
            store.save_queue_map(
                self.name,
                plan.topic,
                plan.target_topic,
                plan.queue_map,
                late=() if new_route else new,
                fresh=[queue for queue in new if plan.queue_map[queue].broker in made],
            )

    async def find_maps(self) -> dict[str, Mapping[Queue, Queue]]:
        """The queue maps of all topics; those that the group does not have are read from the copies at the target.

        A topic without copies has an empty one. One whose queues cannot be read has none, and a problem. Of topics
        with one name at the target each gets those queues that are surely its own.
        """
        store, version = self._context.store, self._configured.version
        maps, taken = store.queue_maps(self.name), defaultdict[str, set[Queue]](set)
        for topic in maps:
            taken[store.target_topic(self.name, topic)].update(store.whole_queue_map(self.name, topic).values())
        having = Counter(plan.target_topic for plan in self.plans)
        for plan in self.plans:
            name = plan.target_topic
            if plan.topic in maps or plan.problem:
                continue
            queues = set(queues_of(self._context.target.topics, name)) - taken[name]
            try:
                copies = await self._others.read(name, sorted(queues), of=plan.topic if having[name] > 1 else "")
            except (ClientError, ProtocolError) as error:
                self._report(plan.topic, error, "let the target's account read the topic")
                continue
            self._configured.refuse_changed(version)
            maps[plan.topic] = found = copies.ours
            self._untold[plan.topic] = frozenset(copies.untold)
            taken[name].update(found.values())
            if found:
                store.save_queue_map(self.name, plan.topic, plan.target_topic, found)
                log.info("queue map found in the target", connector=self.name, topic=plan.topic, queues=len(found))
        return maps

    def queues(self, task: str) -> dict[MessageQueue, Queue]:
        """The queues of a task that have a queue map, with their targets."""
        _, topic, queue = TaskId.parse(task)
        found = self._context.store.queue_map(self.name, topic)
        if queue is not None:
            return {MessageQueue(topic, *queue): found[queue]} if queue in found else {}
        return {MessageQueue(topic, *source): target for source, target in found.items()}

    def knows(self, task: str) -> bool:
        """Whether the queues of a task have a queue map."""
        _, topic, queue = TaskId.parse(task)
        kept = self._context.store.mapped(self.name, topic)
        if kept is None or not kept["queues"] or self._differs(topic, kept):
            return False
        return queue is None or bool(self.queues(task))

    def is_renamed(self, topic: str) -> bool:
        """Whether what is kept of a topic is about a target topic of another name."""
        kept = self._context.store.mapped(self.name, topic)
        return kept is not None and self._differs(topic, kept)

    def _differs(self, topic: str, kept: Mapping[str, Any]) -> bool:
        name = kept["target_topic"]
        return bool(self._targets.get(topic, name) != name)


def _taken(plan: TopicPlan, rivals: Mapping[str, str]) -> str:
    return (
        f"connector {rivals[plan.topic]} copies to topic {plan.target_topic} already: "
        "leave it out of one of the two with exclude_topics, or give it another name with rename"
    )
