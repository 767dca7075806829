"""What becomes at a failover of the messages that POP consumers hold: it goes into retry topics of the target.

Where it cannot, a group starts at the target before the first message that it holds, as every sync has it, and gets
all behind that again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from replicator.aio.bounded import bounded
from replicator.client.brokers import read_settings
from replicator.client.groups import GroupTable, read_groups
from replicator.connector.context import ConnectorContext
from replicator.connector.sync.retry_rights import Denial, why_not_made
from replicator.connector.sync.retry_topic import Missing, RetryTopic, Unsuitable
from replicator.errors import ClientError, ProtocolError, ReplicatorError
from replicator.metadata.group_positions import GroupPositions
from replicator.metadata.offsets import GroupQueue
from replicator.metadata.pop_checkpoints import Consumption
from replicator.metadata.redelivery_plan import (
    HeldCopy,
    has_read_on,
    held_copies,
    obstacle,
    obstacle_at,
    obstacle_of,
    retry_topic_of,
)
from replicator.metadata.target_consumers import GroupConsumers
from replicator.observe.logging import get_logger

__all__ = ["Redelivery"]

#: Retry topics that are seen to at a time.
_AT_ONCE: Final = 4

log = get_logger(__name__)


class _Candidate(NamedTuple):
    """A group in a queue: its place before what it holds, that behind it, and the copies of what it holds."""

    place: GroupQueue
    past: GroupQueue
    copies: Sequence[HeldCopy]

    def settled(self) -> GroupQueue:
        """Its place once all of it is in the retry topic."""
        return replace(self.past, to_retry_topic=len(self.copies))


class _Outcome(NamedTuple):
    """Of a queue: the offsets of what was held, and why that was not put into the retry topic; empty: it was."""

    offsets: frozenset[int]
    held_back_by: str


@dataclass(frozen=True, slots=True)
class _Lane:
    """A retry topic, and the queues of which messages go there."""

    topic: RetryTopic
    candidates: list[_Candidate] = field(default_factory=list)


class Redelivery:
    """Sees to it for the route `name`.

    `problems` is what could not be done the last time; `denied` what, by the last forecast, a failover may not do.
    """

    def __init__(self, name: str, context: ConnectorContext, positions: GroupPositions) -> None:
        self.problems: list[str] = []
        self.denied: list[str] = []
        self._name = name
        self._context = context
        self._positions = positions
        #: What a failover of this worker has made of a queue.
        self._outcomes: dict[Consumption, _Outcome] = {}

    async def forecast(
        self, places: Iterable[GroupQueue], consumers: Mapping[str, GroupConsumers] | None = None
    ) -> list[GroupQueue]:
        """`places` as they are, with what a failover would do with what is held; or past it, where one has done it.

        Args:
            consumers: of groups that hold something, those at the target; None: whether they have any is left open.
        """
        found, brokers, denied = [], _Brokers(self._context), dict[str, None]()
        for place in places:
            if not place.in_flight:
                found.append(place)
                continue
            outcome = self._outcome(place)
            is_done = outcome is not None and not outcome.held_back_by and has_read_on(place)
            judged = await self._judge(place, {} if is_done or consumers is None else consumers, brokers)
            if isinstance(judged, GroupQueue):
                found.append(judged)
            elif outcome is not None and outcome.held_back_by:
                found.append(replace(place, held_back_by=outcome.held_back_by))
            elif is_done:
                found.append(judged.settled())
            elif why := await self._denial(place, brokers):
                denied[_denied(place, why)] = None
                found.append(replace(place, held_back_by=why))
            else:
                found.append(replace(place, to_retry_topic=len(judged.copies), acknowledged_after=0))
        self.denied = [*denied]
        return found

    async def carry_out(
        self,
        places: Sequence[GroupQueue],
        consumers: Mapping[str, GroupConsumers],
        *,
        may_go_on: Callable[[], bool],
        dry_run: bool = False,
    ) -> list[GroupQueue]:
        """Puts what is held into retry topics. Those places are then past all that was delivered.

        The others remain before what is held, and `held_back_by` says why.

        Args:
            consumers: of groups that hold something, those at the target.
            dry_run: nothing is put anywhere.
        """
        self.problems = []
        found: dict[Consumption, GroupQueue] = {}
        lanes: dict[tuple[str, str, str], _Lane] = {}
        brokers = _Brokers(self._context)
        for place in (each for each in places if each.in_flight):
            judged = await self._judge(place, consumers, brokers)
            if isinstance(judged, GroupQueue):
                found[_key(place)] = judged
            elif dry_run and (why := await self._denial(place, brokers)):
                self.problems.append(_denied(place, why))
                found[_key(place)] = replace(place, held_back_by=why)
            elif dry_run:
                found[_key(place)] = judged.settled()
            else:
                at = (place.group, place.queue.target.broker, retry_topic_of(place))
                lane = lanes.get(at) or lanes.setdefault(at, _Lane(RetryTopic(self._context, *at)))
                lane.candidates.append(judged)
        if lanes:
            await asyncio.sleep(self._context.settle_timeout)  # what was sent before may still wait inside a broker

        async def settle(lane: _Lane) -> None:
            settled = await self._settle(lane, brokers, may_go_on)
            found.update(settled)
            for key, place in settled.items():
                offsets = frozenset(held.offset for held in place.held)
                self._outcomes[key] = _Outcome(offsets, place.held_back_by)

        await bounded(settle, lanes.values(), at_once=_AT_ONCE)
        return [found.get(_key(place), place) for place in places]

    async def _judge(
        self, place: GroupQueue, consumers: Mapping[str, GroupConsumers], brokers: _Brokers
    ) -> _Candidate | GroupQueue:
        """What is to be done, or the place with the reason why nothing is."""
        broker, there = place.queue.target.broker, consumers.get(place.group, GroupConsumers())
        why, past = "it has consumers at the target" if there.live else there.unsure([broker]), place
        try:
            if place.held:
                past = await self._positions.past_what_is_held(place)
            why = why or obstacle(place, past) or await brokers.obstacle(place)
        except (ClientError, ProtocolError) as error:
            why = str(error)
        return replace(place, held_back_by=why) if why else _Candidate(place, past, held_copies(place) or ())

    async def _denial(self, place: GroupQueue, brokers: _Brokers) -> str:
        """Why the account may not make its retry topic; of a broker that does not answer others say more."""
        try:
            found = await brokers.denial(place.queue.target.broker, retry_topic_of(place))
        except (ClientError, ProtocolError):
            return ""
        return "; ".join(found or ())

    def _outcome(self, place: GroupQueue) -> _Outcome | None:
        """What a failover has made of what is held; None if it did not know all of that."""
        outcome = self._outcomes.get(_key(place))
        return outcome if outcome and outcome.offsets.issuperset(each.offset for each in place.held) else None

    async def _settle(
        self, lane: _Lane, brokers: _Brokers, may_go_on: Callable[[], bool]
    ) -> dict[Consumption, GroupQueue]:
        """Where its queues are, once all that can be put into the topic is there."""
        topic, found, missing = lane.topic, dict[Consumption, GroupQueue](), list[Missing]()
        try:
            held = [copy.popped for each in lane.candidates for copy in each.copies]
            if held:
                await topic.read(min(held))
            for place, _, copies in lane.candidates:
                try:
                    missing += await topic.missing(place, copies)
                except Unsuitable as error:
                    found[_key(place)] = replace(place, held_back_by=error.message)
            if missing:
                offsets = self._positions.there.tables.get(topic.broker)
                await topic.prepare(await brokers.groups(topic.broker), offsets)
                await topic.put(missing, may_go_on)
        except ReplicatorError as error:
            why = f"what it holds could not be put into {topic.name}: {error}"
            self.problems.append(
                f"group {topic.group} at {topic.broker} would start before what its POP consumers hold: {why};"
                " repeat the failover before its consumers start"
            )
            left = (each.place for each in lane.candidates if _key(each.place) not in found)
            return found | {_key(place): replace(place, held_back_by=why) for place in left}
        if missing:
            told = {"group": topic.group, "topic": topic.name, "broker": topic.broker}
            log.info(
                "messages in flight put into a retry topic", connector=self._name, **told, messages=len(missing)
            )
        for each in lane.candidates:
            if _key(each.place) not in found:
                found[_key(each.place)] = each.settled()
        return found


class _Brokers:
    """What brokers of the target say of themselves, each asked once."""

    def __init__(self, context: ConnectorContext) -> None:
        self._context = context
        self._source, self._target = context.source, context.target
        self._denials: dict[tuple[str, str], Denial | None] = {}
        self._groups: dict[str, GroupTable] = {}
        self._settings: dict[str, Mapping[str, str]] = {}

    async def groups(self, broker: str) -> GroupTable:
        if broker not in self._groups:
            self._groups[broker] = await read_groups(self._target.cluster.master(broker))
        return self._groups[broker]

    async def denial(self, broker: str, name: str) -> Denial | None:
        """As `why_not_made`; errors as of requests."""
        if (broker, name) not in self._denials:
            self._denials[broker, name] = await why_not_made(self._context, broker, name)
        return self._denials[broker, name]

    async def obstacle(self, place: GroupQueue) -> str:
        """As `obstacle_at`; errors as of requests."""
        broker = place.queue.target.broker
        if broker not in self._settings:
            self._settings[broker] = await read_settings(self._target.cluster.master(broker))
        table, topic = await self.groups(broker), place.queue.target_topic
        if why := obstacle_at(self._settings[broker], table, place.group, topic, retry_topic_of(place)):
            return why
        # At the target it may be new, and at the source be gone by now.
        configs = (
            self._target.topics.get(broker, {}).get(topic),
            self._source.topics.get(place.queue.source.broker, {}).get(place.topic),
        )
        return next((why for config in configs if config is not None and (why := obstacle_of(config))), "")


def _denied(place: GroupQueue, why: str) -> str:
    """What is said of a group whose retry topic may not be made."""
    broker = place.queue.target.broker
    return f"group {place.group} at {broker} could not be given what its POP consumers hold: {why}"


def _key(place: GroupQueue) -> Consumption:
    source = place.queue.source
    return Consumption(place.group, place.topic, source.broker, source.queue_id)
